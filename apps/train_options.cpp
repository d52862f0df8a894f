#include "apps/train_options.h"

#include <algorithm>
#include <filesystem>

#include "apps/model_folder.h"
#include "apps/presets.h"

namespace tapegrad::apps {
namespace {

enum class Lasting {
  call,   // of this call only
  run,    // kept in config.json, and may be changed when the run is resumed
  model,  // kept, and cannot be changed
};

// The table of options, which is all that reading, printing, saving and comparing them go by.
template <class Options, class Visitor>
void visit_options(Options& o, Visitor&& v) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);

  v.group("Run", Lasting::call);
  v("--out-dir", o.out_dir, "DIR", "the run folder [the next free runs/PRESET-N]");
  v.choice("--init-from", o.init_from, {"scratch", "resume"},
           "resume goes on from the last checkpoint in --out-dir");
  v.flag("--overwrite", o.overwrite, "replace a run that --out-dir holds already");
  v.flag("--sample", o.sample, "print a sample at the end", true);
  v("--threads", o.threads, "N", "threads [one per processor]; results do not depend on it", 1);

  v.group("Text", Lasting::model);
  v.choice("--preset", o.preset, names, "what all other options start from; see below");
  v("--corpus", o.corpus, "PATH", "files and folders of text [the program's own sources]");
  v("--tokenizer", o.tokenizer, "KIND", "char, gpt2, or bpe:N with N tokens");

  v.group("Model", Lasting::model);
  v("--n-layer", o.n_layer, "N", "blocks", 1);
  v("--n-head", o.n_head, "N", "attention heads per block", 1);
  v("--n-embd", o.n_embd, "N", "channels", 1);
  v("--block-size", o.block_size, "N", "the longest sequence, in tokens", 1);
  v("--dropout", o.dropout, "P", "share of activations that is dropped", 0);
  v.flag("--bias", o.bias, "biases in linear layers and layer norms", true);
  v.flag("--qkv-bias", o.qkv_bias, "biases of the Q, K, V projection; as --bias unless given",
         true);
  v.flag("--tied", o.tied, "the head shares the token embedding", true);
  v.choice("--activation", o.activation, {"gelu", "gelu-erf", "relu"}, "of the feed-forward layer");
  v("--seed", o.seed, "N", "of the initialisation, the batches and dropout");

  v.group("Optimisation", Lasting::run);
  v("--max-iters", o.max_iters, "N", "optimiser steps", 0);
  v("--batch-size", o.batch_size, "N", "sequences per forward pass", 1);
  v("--gradient-accumulation-steps", o.gradient_accumulation_steps, "N",
    "forward passes per optimiser step", 1);
  v("--learning-rate", o.learning_rate, "X", "after the warm-up", 0);
  v("--min-lr", o.min_lr, "X", "at the end of the decay", 0);
  v.choice("--schedule", o.schedule, {"constant", "linear", "cosine"}, "how the rate decays");
  v("--warmup-iters", o.warmup_iters, "N", "steps until the full learning rate", 0);
  v("--lr-decay-iters", o.lr_decay_iters, "N", "steps until --min-lr [--max-iters]", 0);
  v("--weight-decay", o.weight_decay, "X", "of matrices and embeddings", 0);
  v("--beta1", o.beta1, "X", "AdamW's", 0);
  v("--beta2", o.beta2, "X", "AdamW's", 0);
  v("--grad-clip", o.grad_clip, "X", "the largest norm of the gradient; 0: any", 0);

  v.group("Evaluation and output", Lasting::run);
  v("--eval-interval", o.eval_interval, "N", "steps between evaluations, each with a checkpoint",
    1);
  v("--eval-iters", o.eval_iters, "N", "batches per split and evaluation", 1);
  v("--log-interval", o.log_interval, "N", "steps between iter lines", 1);
}

// For visitors to which a value is a value, whatever its option looks like.
template <class Derived>
struct PlainVisitor {
  Lasting lasting = Lasting::call;
  void group(const char*, Lasting l) { lasting = l; }
  template <class T>
  void operator()(const std::string& name, T& value, const char*, const char*,
                  double least = -std::numeric_limits<double>::infinity()) {
    static_cast<Derived*>(this)->visit(name, value);
    if constexpr (std::is_arithmetic_v<T>) static_cast<Derived*>(this)->bound(name, value, least);
  }
  void bound(const std::string&, double, double) {}
  template <class T>
  void choice(const std::string& name, T& value, const std::vector<std::string>&, const char*) {
    static_cast<Derived*>(this)->visit(name, value);
  }
  template <class T>
  void flag(const std::string& name, T& value, const char*, bool = false) {
    static_cast<Derived*>(this)->visit(name, value);
  }
};

std::string json_name(const std::string& option) {
  std::string name = option.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct Registrar {
  CommandLine& cli;
  void group(const char* heading, Lasting) { cli.group(heading); }
  template <class T>
  void operator()(const std::string& name, T& value, const char* placeholder, const char* help,
                  double least = -std::numeric_limits<double>::infinity()) {
    cli.option(name, value, placeholder, help, least);
  }
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& choices,
              const char* help) {
    cli.choice(name, value, choices, help);
  }
  void flag(const std::string& name, bool& value, const char* help, bool negatable = false) {
    cli.flag(name, value, help, negatable);
  }
};

struct Writer : PlainVisitor<Writer> {
  Json json = Json::object();
  template <class T>
  void visit(const std::string& name, const T& value) {
    if (lasting != Lasting::call) json[json_name(name)] = json_of(value);
  }
};

struct Reader : PlainVisitor<Reader> {
  const std::filesystem::path& path;
  const Json& json;
  Reader(const std::filesystem::path& p, const Json& j) : path(p), json(j) {}
  template <class T>
  void visit(const std::string& name, T& value) {
    if (lasting != Lasting::call) get(path, json, json_name(name), value);
  }
  void bound(const std::string& name, double value, double least) {
    check(value >= least, "{}: '{}' must be at least {}, not {}", path.string(), json_name(name),
          least, value);
  }
};

// What cannot change is as it was stored.
struct Comparer : PlainVisitor<Comparer> {
  const Json stored;
  explicit Comparer(const TrainOptions& o) : stored(options_to_json(o)) {}
  template <class T>
  void visit(const std::string& name, const T& value) {
    if (lasting != Lasting::model || name == "--corpus") return;
    const Json& before = stored.at(json_name(name));
    if (json_of(value) != before) {
      usage_error("{} {} does not fit the run to resume, which has {}", name, json_of(value).dump(),
                  before.dump());
    }
  }
};

void describe_program(CommandLine& cli) {
  cli.example("train-gpt", "two minutes on the program's own sources, then a sample");
  cli.example("train-gpt --preset char-cpu --corpus shakespeare.txt", "nanoGPT's laptop recipe");
  cli.example("train-gpt --corpus notes/ --tokenizer bpe:2000 --out-dir runs/notes",
              "all text files below a folder, with 2,000 tokens learnt from them");
  cli.example("train-gpt --init-from resume --out-dir runs/notes --max-iters 4000",
              "goes on where that run stopped, up to 4,000 steps in all");
  for (const Preset& preset : presets()) cli.list("Presets", preset.name, preset.summary);
}

// What can be said of a tokenizer before there is a text.
void check_tokenizer(const std::string& spec) {
  if (spec == "char" || spec == "gpt2") return;
  const std::string digits = spec.rfind("bpe:", 0) == 0 ? spec.substr(4) : "";
  const bool number = !digits.empty() && digits.size() <= 7 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  check(number, "--tokenizer: '{}' is not char, gpt2 or bpe:N with N tokens, such as bpe:1024",
        spec);
}

void check_values(const TrainOptions& o) {
  check_tokenizer(o.tokenizer);
  o.model_config(256).validate();
  o.lr_schedule().validate();
  optim::AdamW(NamedTensors{}, o.adamw_options());
  constexpr int64_t most_steps = int64_t{1} << 40, most_rows = int64_t{1} << 18;
  check(o.max_iters <= most_steps, "--max-iters must be at most {}", most_steps);
  check(o.batch_size <= most_rows && o.gradient_accumulation_steps <= most_rows,
        "--batch-size and --gradient-accumulation-steps must be at most {}", most_rows);
}

void check_options(const TrainOptions& o) {
  as_usage([&] {
    check_values(o);
    check(!o.resumes() || !o.out_dir.empty(), "--init-from resume needs --out-dir");
    check(!o.resumes() || !o.overwrite, "--init-from resume and --overwrite contradict each other");
  });
}

TrainOptions stored_options(const std::string& folder) {
  const auto path = std::filesystem::path(folder) / config_file;
  check(std::filesystem::exists(path), "{}: there is no run to resume here", folder);
  Json training;
  get(path, read_config(folder), "training", training);
  const TrainOptions options = options_from_json(path, training);
  try {
    check_values(options);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return options;
}

}  // namespace

nn::GPTConfig TrainOptions::model_config(int64_t vocab_size) const {
  return {.vocab_size = vocab_size,
          .block_size = block_size,
          .n_layer = n_layer,
          .n_head = n_head,
          .n_embd = n_embd,
          .dropout = dropout,
          .bias = bias,
          .qkv_bias = qkv_bias,
          .tied = tied,
          .activation = nn::activation_from(activation)};
}

optim::AdamWOptions TrainOptions::adamw_options() const {
  return {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay};
}

optim::Schedule TrainOptions::lr_schedule() const {
  return {.kind = optim::schedule_from(schedule),
          .learning_rate = learning_rate,
          .min_lr = min_lr,
          .warmup_iters = warmup_iters,
          .lr_decay_iters = lr_decay_iters.value_or(std::max(max_iters, warmup_iters))};
}

std::optional<TrainOptions> parse_train_options(int argc, const char* const* argv) {
  TrainOptions o = presets().front().options;
  CommandLine cli("train-gpt", "Trains a GPT on text and keeps it in a run folder.");
  visit_options(o, Registrar{cli});
  describe_program(cli);
  if (!cli.parse(argc, argv)) return std::nullopt;

  const TrainOptions call = o;
  o = call.resumes() && !call.out_dir.empty() ? stored_options(call.out_dir)
                                              : preset_options(call.preset);
  const TrainOptions stored = o;
  cli.apply();
  for (std::string& path : o.corpus) path = std::filesystem::absolute(path).string();
  if (cli.given("--bias") && !cli.given("--qkv-bias")) o.qkv_bias = o.bias;
  // Decided once: a run that is resumed with more steps keeps its schedule.
  if (!o.lr_decay_iters) o.lr_decay_iters = std::max(o.max_iters, o.warmup_iters);
  check_options(o);
  if (o.resumes()) visit_options(o, Comparer(stored));
  return o;
}

Json options_to_json(const TrainOptions& options) {
  Writer writer;
  visit_options(options, writer);
  return writer.json;
}

TrainOptions options_from_json(const std::filesystem::path& path, const Json& json) {
  TrainOptions options;
  visit_options(options, Reader(path, json));
  return options;
}

}  // namespace tapegrad::apps
