#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/demo/gradient_bars.h"
#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {

// As many layers as a terminal can show, and as many weights as take no time.
constexpr int kMostLayers = 100;
constexpr std::int64_t kMostWeights = 10'000'000;

struct Options {
  demo::Experiment experiment;
  std::string svg;
};

bool parse(const cli::Call& call, Options& o) {
  cli::CommandLine cli(
      call.name,
      "Shows what shortcuts (residual connections) do to the gradients of a deep "
      "network.\n\n"
      "Runs a chain of Linear + activation layers forward and backward once, without\n"
      "and with a shortcut around each layer, and shows the mean absolute gradient of\n"
      "each layer's weight. All layers but the last are WIDTH wide, the last has one\n"
      "output; the input repeats 1, 0, -1; the target is 0, the loss the squared\n"
      "error. Nothing is trained. The default is the tutorials' experiment.");
  demo::Experiment& e = o.experiment;
  cli.group("Experiment");
  cli("layers", e.layers, "number of layers, 1 to 100", {.least = 1});
  cli("width", e.width, "size of the input and of all layers but the last", {.least = 1});
  cli("seed", e.seed, "seed of the weights, drawn as PyTorch draws them");
  cli("activation", e.activation, "GELU by tanh or by erf, or ReLU");
  cli("svg", o.svg, "also draw the bars into this file", {.value = "FILE"});
  cli.example("tapegrad demo", "five layers, as in the tutorials");
  cli.example("tapegrad demo --layers 20 --width 8", "a deeper and wider network");
  cli.example("tapegrad demo --activation relu --svg gradients.svg", "ReLU, with a picture");
  if (cli.parse_or_print(call.argc, call.argv)) return false;
  if (e.layers > kMostLayers) {
    cli::usage_error("--layers: must be at most {}, not {}", kMostLayers, e.layers);
  }
  if (e.width > kMostWeights / e.layers / e.width) {
    cli::usage_error(
        "--width: {} layers of width {} have more than {} weights; take fewer or narrower ones",
        e.layers, e.width, kMostWeights);
  }
  return true;
}

int show(const cli::Call& call) {
  Options o;
  if (!parse(call, o)) return 0;
  const demo::Measured plain = demo::measure(o.experiment, false);
  const demo::Measured with = demo::measure(o.experiment, true);
  demo::print_report(o.experiment, plain, with);
  if (!o.svg.empty()) {
    write_file_atomically(o.svg, demo::svg_report(o.experiment, plain, with));
    fmt::print("\nThe picture is in {}\n", o.svg);
  }
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return show(call); });
}

const cli::Command kCommand("demo", cli::CommandGroup::learn, "show what shortcuts do to gradients",
                            run, "gradient-demo");

}  // namespace
}  // namespace tapegrad
