#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, out_dir;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(int argc, const char* const* argv) {
  Options o;
  cli::CommandLine cli(
      "merge-lora",
      "Writes the model of a run with LoRA adapters as a model without: each weight W that has an\n"
      "adapter becomes W + (alpha / rank) B A. sample-text, evaluate and train-gpt --init-from\n"
      "take such a folder, and merge by themselves the adapters of a run that they are given.");
  cli.group("Model");
  cli("model", o.model, "the run folder, of train-gpt --lora-rank", {.value = "DIR"});
  cli("checkpoint", o.checkpoint, "whose weights: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("out_dir", o.out_dir, "the folder of the new model", {.value = "DIR"});
  cli.options(o.compute);
  cli.example("merge-lora --model runs/letters --out-dir models/letters",
              "weights and tokenizer, without the optimiser's state");
  if (cli.parse_or_print(argc, argv)) return std::nullopt;
  if (o.model.empty()) cli::usage_error("--model is needed: the run folder of a model");
  if (o.out_dir.empty()) cli::usage_error("--out-dir is needed: the folder of the new model");
  cli::use_compute(o.compute);
  return o;
}

int merge(const Options& o) {
  check(run::open_model(o.model).tuning.lora_rank.has_value(),
        "{}: the model has no adapters: there is nothing to merge", o.model);
  run::save_model(o.out_dir, run::load(o.model, DType::f32, o.checkpoint));
  fmt::print("the model is in {}\nuse: {} --model {}\n", o.out_dir,
             cli::program_path("sample-text"), cli::quoted(o.out_dir));
  return 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("merge-lora", [&] {
    const auto options = tapegrad::parse(argc, argv);
    return options ? tapegrad::merge(*options) : 0;
  });
}
