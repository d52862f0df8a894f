#include <optional>

#include "tapegrad/apps/check/gradient_checks.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::optional<std::string> model;  // its path
  checks::ReportOptions report;
};

bool parse(int argc, char** argv, Options& options) {
  cli::CommandLine cli(
      "gradient-check",
      "Compares the library's gradients with differences, in double precision.\n\n"
      "Each gradient is compared with (f(x + hv) - f(x - hv)) / 2h along a random\n"
      "direction v: first and second derivatives of every op at many shapes, then\n"
      "every step of a small GPT, and the slope of its loss along each parameter.\n"
      "The exit code is 1 if any of them is wrong.");
  cli.group("Checks");
  cli("model", options.model,
      "a run folder, or a model of another program, to check instead of the ops and the small GPT",
      {.value = "PATH"});
  cli("filter", options.report.filter, "only ops and parameters whose name has NAME in it",
      {.value = "NAME"});
  cli("tolerance", options.report.check.tolerance, "largest relative error that passes",
      {.least = 0});
  cli("seed", options.report.check.seed, "seed of inputs and directions");
  cli("verbose", options.report.verbose, "list every input with both values");
  cli.example("gradient-check", "everything, in seconds");
  cli.example("gradient-check --filter attention --verbose", "one op, in full");
  cli.example("gradient-check --model out", "the model in the run folder out");
  cli.example("gradient-check --model models/SmolLM2-135M", "one in a folder of Hugging Face's");
  if (cli.parse_or_print(argc, argv)) return false;
  if (options.report.check.tolerance <= 0) cli::usage_error("--tolerance must be above 0");
  return true;
}

int check_all(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return 0;
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

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("gradient-check", [&] { return tapegrad::check_all(argc, argv); });
}
