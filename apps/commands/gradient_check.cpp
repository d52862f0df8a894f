#include <optional>

#include "tapegrad/apps/check/gradient_checks.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::optional<std::string> model;  // its path
  checks::ReportOptions report;
};

bool parse(const cli::Call& call, Options& options) {
  cli::CommandLine cli(
      call.name,
      "Compares the library's gradients with differences, in double precision.\n\n"
      "Each gradient is compared with (f(x + hv) - f(x - hv)) / 2h along a random\n"
      "direction v: first and second derivatives of every op at many shapes, then\n"
      "every step of a small GPT, and the slope of its loss along each parameter.\n"
      "The exit code is 1 if any of them is wrong.");
  cli.group("Checks");
  cli("model", options.model,
      "a run folder, or a model of another program, to check instead of the ops and the small GPT",
      {.value = "PATH"});
  std::vector<std::string> words;
  cli.words(words, "MODEL", "the same as --model MODEL");
  cli.alias("-m", "--model");
  cli("filter", options.report.filter, "only ops and parameters whose name has NAME in it",
      {.value = "NAME"});
  cli("tolerance", options.report.check.tolerance, "largest relative error that passes",
      {.least = 0});
  cli("seed", options.report.check.seed, "seed of inputs and directions");
  cli("verbose", options.report.verbose, "list every input with both values");
  cli.example("tapegrad check", "everything, in seconds");
  cli.example("tapegrad check --filter attention --verbose", "one op, in full");
  cli.example("tapegrad check out", "the model in the run folder out");
  cli.example("tapegrad check models/SmolLM2-135M", "one in a folder of Hugging Face's");
  if (cli.parse_or_print(call.argc, call.argv)) return false;
  if (!options.model && !words.empty()) {
    options.model = words.front();
    words.erase(words.begin());
  }
  cli::refuse_words(words);
  if (options.report.check.tolerance <= 0) cli::usage_error("--tolerance must be above 0");
  return true;
}

int check_all(const cli::Call& call) {
  Options options;
  if (!parse(call, options)) return 0;
  checks::CheckReport report(options.report);
  if (options.model) {
    const run::TextModel model = run::load(*options.model, DType::f64);
    checks::check_gpt(fmt::format("GPT of {}", *options.model), model.gpt,
                      model.params.parameters(), report);
    return report.finish();
  }
  checks::check_ops(report);
  Rng rng(options.report.check.seed);
  const nn::Params params(rng, DType::f64);
  const nn::Decoder gpt(
      params, {.vocab_size = 17, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
  checks::check_gpt("GPT of 2 layers", gpt, params.parameters(), report);
  return report.finish();
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return check_all(call); });
}

const cli::Command kCommand("check", cli::CommandGroup::learn,
                            "compare all gradients with differences", run, "gradient-check");

}  // namespace
}  // namespace tapegrad
