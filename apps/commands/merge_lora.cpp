#include "tapegrad/apps/cli/command.h"
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

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Writes the model of a run with LoRA adapters as a model without: each weight W that has an\n"
      "adapter becomes W + (alpha / rank) B A. tapegrad sample, evaluate and train --init-from\n"
      "take such a folder, and merge by themselves the adapters of a run that they are given.");
  std::vector<std::string> words;
  cli.words(words, "MODEL", "the same as --model MODEL");
  cli.group("Model");
  cli("model", o.model, "the run folder, of tapegrad train --lora-rank", {.value = "DIR"});
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("out_dir", o.out_dir, "the folder of the new model", {.value = "DIR"});
  cli.alias("-m", "--model");
  cli.alias("-o", "--out-dir");
  cli.options(o.compute);
  cli.example("tapegrad merge runs/letters --out-dir models/letters",
              "weights and tokenizer, without the optimiser's state");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, words, "the run folder of a model");
  cli::refuse_words(words);
  if (o.out_dir.empty()) cli::usage_error("--out-dir is needed: the folder of the new model");
  cli::use_compute(o.compute);
  return o;
}

int merge(const Options& o) {
  check(run::open_model(o.model).tuning.lora_rank.has_value(),
        "{}: the model has no adapters: there is nothing to merge", o.model);
  run::save_model(o.out_dir, run::load(o.model, DType::f32, o.checkpoint));
  fmt::print("the model is in {}\nuse: {} {}\n", o.out_dir, cli::program_path("tapegrad sample"),
             cli::quoted(o.out_dir));
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? merge(*options) : 0;
  });
}

const cli::Command kCommand("merge", cli::CommandGroup::train,
                            "merge LoRA adapters into the weights of a model", run);

}  // namespace
}  // namespace tapegrad
