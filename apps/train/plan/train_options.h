#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/options/tuning.h"
#include "tapegrad/run/plan/step_forecast.h"
#include "tapegrad/run/train/batches.h"
#include "tapegrad/run/train/preferences.h"
#include "tapegrad/run/train/teacher.h"

namespace tapegrad::gpt {

enum class FirstWeights { gpt2, torch };
inline constexpr std::string_view kFirstWeightsNames[] = {"gpt2", "torch"};
inline std::span<const std::string_view> names_of(FirstWeights) { return kFirstWeightsNames; }

// The choice to run blocks again for their gradients: see nn::Decoder::recompute. `automatic`
// becomes one of the others when the memory is known: resolve().
enum class Recompute { off, on, automatic };
inline constexpr std::string_view kRecomputeNames[] = {"off", "on", "auto"};
inline std::span<const std::string_view> names_of(Recompute) { return kRecomputeNames; }

// A format that the model of --preset fast is to be written in: it keeps to parts that programs of
// that format have.
enum class Destination { tapegrad, hf, gguf };
inline constexpr std::string_view kDestinationNames[] = {"tapegrad", "hf", "gguf"};
inline std::span<const std::string_view> names_of(Destination) { return kDestinationNames; }

// Actions of this call beside, or in place of, training.
struct CallExtras {
  bool summary = false, plan = false, eval_only = false;
  Recompute recompute = Recompute::off;
  std::optional<double> gflops;  // of matrix products, for --preset fast and --plan
  Destination destination = Destination::tapegrad;  // --for
  std::int64_t ranks = 1;
  std::string bandwidth = "10Gbit", latency = "50us";

  bool recomputes() const { return recompute == Recompute::on; }
  // True if --plan is about another machine than this one.
  bool assumes_machine() const { return plan && gflops; }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("summary", o.summary, "print the model's layers with their sizes; do not train");
    t("plan", o.plan, "print memory by kind and the measured time of a step; do not train");
    t("ranks", o.ranks, "processes for --plan, each on a machine of its own",
      {.least = 1, .most = 1 << 12});
    t("bandwidth", o.bandwidth,
      "rate of the network between the processes of --plan, such as 10Gbit", {.value = "RATE"});
    t("latency", o.latency, "time until a message arrives, for --plan, such as 50us",
      {.value = "TIME"});
    t("gflops", o.gflops,
      "with --preset fast or --plan: assume this speed of matrix products, in 10⁹ operations per "
      "second, instead of measuring it, so that every machine chooses the same model, and --plan "
      "knows other machines",
      {.least = 0.1, .most = 1e9, .value = "N"});
    t("for", o.destination,
      "with --preset fast: keep to parts that Hugging Face's layout or GGUF can express, so that "
      "tapegrad export can write the model; tapegrad: the parts that learn most");
    t("eval_only", o.eval_only, "print the validation loss of the run in --out-dir; do not train");
    t("recompute", o.recompute,
      "save memory: keep only each block's input and run the block again for its gradient, which "
      "takes more time; auto: only if the run would not fit otherwise");
  }
};

struct InitOptions {
  FirstWeights init = FirstWeights::gpt2;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("init", o.init, "initial weights: nanoGPT's N(0, 0.02), or the defaults of PyTorch's layers");
  }
};

struct EpochOptions {
  std::optional<std::int64_t> epochs = {};  // becomes max_iters when the text is known
  std::optional<std::int64_t> sample_interval = {};
  std::string sample_prompt;        // empty: no samples after epochs
  std::string final_eval = "auto";  // see run::evaluation_limit

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("epochs", o.epochs,
      "times through the text, in place of --max-iters; implies --batches epochs",
      {.least = 1, .most = 1 << 20});
    t("sample_interval", o.sample_interval,
      "print samples every N steps, and keep them in metrics.jsonl", {.least = 1, .newer = true});
    t("sample_prompt", o.sample_prompt,
      "text that --sample-interval continues; with --batches epochs, also continued greedily after "
      "each pass");
    t("final_eval", o.final_eval,
      "share of the validation split in the last evaluation: all, none, N batches, or auto (a "
      "fifth as many batches as the training had)",
      {.value = "auto|all|none|N", .lasting = Lasting::call});
  }
};

// The options of train-gpt.
struct Options {
  cli::CallOptions call;
  CallExtras extras;
  run::TextOptions text;
  nn::DecoderConfig model;
  InitOptions init;
  run::RandomOptions random;
  run::TuningOptions tuning;
  run::PreferenceOptions preference;
  run::TeacherOptions teaching;
  run::OptimizerOptions optimizer;
  run::EvaluationOptions evaluation;
  EpochOptions epochs;

  void validate() const;
  // The same options with a value for each that stands for one without being given.
  Options with_defaults() const;
  bool prefers() const { return !text.preferences.empty(); }
  // True if a frozen copy of the weights that the run starts from runs beside the model.
  bool copies_start() const { return prefers() && preference.has_reference() && !tuning.lora_rank; }
  // The options that name texts, and their paths.
  template <class Self>
  static auto texts(Self& o) {
    using Texts = std::vector<std::pair<const char*, decltype(&o.text.corpus)>>;
    return Texts{{"--corpus", &o.text.corpus},
                 {"--val", &o.text.val},
                 {"--chat", &o.text.chat},
                 {"--preferences", &o.text.preferences},
                 {"--data", &o.text.data}};
  }
  run::BatchPlan batches() const { return run::batch_plan(text, optimizer.batch_size); }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t.section("call", "Run", Lasting::call, o.call);
    t.section("extras", "Run", Lasting::call, o.extras);
    t.section("data", "Text", Lasting::model, o.text);
    t.section("model", "Model", Lasting::model, o.model);
    t.section("init", "Model", Lasting::model, o.init);
    t.section("random", "Model", Lasting::model, o.random);
    t.section(run::kTuningSection, "Fine-tuning", Lasting::model, o.tuning);
    t.section("preference", "Fine-tuning", Lasting::model, o.preference);
    t.section("teaching", "Fine-tuning", Lasting::model, o.teaching);
    t.section("optimizer", "Optimisation", Lasting::run, o.optimizer);
    t.section("evaluation", "Evaluation and output", Lasting::run, o.evaluation);
    t.section("passes", "Evaluation and output", Lasting::run, o.epochs);
  }
};

using Arguments = cli::Arguments<Options>;

}  // namespace tapegrad::gpt
