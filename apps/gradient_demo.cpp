#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/svg_bars.h"
#include "tapegrad/apps/tutorial/residual_net.h"
#include "tapegrad/autograd/base/file.h"

namespace tapegrad {
namespace {

// As many layers as a terminal can show, and as many weights as take no time.
constexpr int max_layers = 100;
constexpr std::int64_t max_weights = 10'000'000;

struct Options {
  int layers = 5;
  std::int64_t width = 3;
  std::uint64_t seed = 123;
  nn::Activation activation = nn::Activation::gelu;
  std::string svg;

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> list(static_cast<std::size_t>(layers), width);
    list.push_back(1);
    return list;
  }
  std::vector<float> input() const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < width; ++i) values.push_back(std::array{1.F, 0.F, -1.F}[i % 3]);
    return values;
  }
};

struct Run {
  double loss = 0;
  std::vector<double> gradients;  // mean |gradient| of each layer's weight
};

bool parse(int argc, char** argv, Options& options) {
  cli::CommandLine cli(
      "gradient-demo",
      "Shows what shortcuts (residual connections) do to the gradients of a deep "
      "network.\n\n"
      "Runs a chain of Linear + activation layers forward and backward once, without\n"
      "and with a shortcut around each layer, and shows the mean absolute gradient of\n"
      "each layer's weight. All layers but the last are WIDTH wide, the last has one\n"
      "output; the input repeats 1, 0, -1; the target is 0, the loss the squared\n"
      "error. Nothing is trained. The default is the tutorials' experiment.");
  cli.group("Experiment");
  cli("layers", options.layers, "number of layers, 1 to 100", {.least = 1});
  cli("width", options.width, "size of the input and of all layers but the last", {.least = 1});
  cli("seed", options.seed, "seed of the weights, drawn as PyTorch draws them");
  cli("activation", options.activation, "GELU by tanh or by erf, or ReLU");
  cli("svg", options.svg, "also draw the bars into this file", {.value = "FILE"});
  cli.example("gradient-demo", "five layers, as in the tutorials");
  cli.example("gradient-demo --layers 20 --width 8", "a deeper and wider network");
  cli.example("gradient-demo --activation relu --svg gradients.svg", "ReLU, with a picture");
  if (cli.parse_or_print(argc, argv)) return false;
  if (options.layers > max_layers) {
    cli::usage_error("--layers: must be at most {}, not {}", max_layers, options.layers);
  }
  if (options.width > max_weights / options.layers / options.width) {
    cli::usage_error(
        "--width: {} layers of width {} have more than {} weights; take fewer or narrower ones",
        options.layers, options.width, max_weights);
  }
  if (cli.given("--svg") && options.svg.empty()) cli::usage_error("--svg: the file needs a name");
  return true;
}

Run measure(const Options& options, bool shortcuts) {
  Rng rng(options.seed);
  const nn::ResidualNet net(nn::Params(rng), options.sizes(), shortcuts, options.activation);
  Tape tape;
  const Tensor loss =
      mse_loss(net(Tensor::from(options.input(), {1, options.width})), Tensor::zeros({1, 1}));
  tape.backward(loss);
  Run result{.loss = loss.item(), .gradients = {}};
  for (const nn::Linear& layer : net.layers) {
    const Tensor grad = layer.weight.grad();
    double sum = 0;
    for (const float g : grad.values<float>()) sum += std::abs(static_cast<double>(g));
    result.gradients.push_back(sum / static_cast<double>(grad.numel()));
  }
  return result;
}

int terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// A bar of `share` of `columns`, to an eighth of a column.
std::string bar(double share, int columns) {
  static constexpr std::array parts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(share * columns * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + parts[static_cast<std::size_t>(eighths % 8)];
}

void print_bars(const std::string& heading, const Run& run, const LogScale& scale) {
  fmt::print("{} (loss {:.9g})\n", heading, run.loss);
  constexpr int text_columns = 42;
  const int columns = std::clamp(terminal_width() - text_columns, 8, 100);
  for (std::size_t i = 0; i < run.gradients.size(); ++i) {
    fmt::print("  {:<19} {:<17}  {}\n", fmt::format("layers.{}.0.weight", i),
               fmt::format("{:.9g}", run.gradients[i]),
               bar(scale.place(run.gradients[i]), columns));
  }
  fmt::print("\n");
}

std::string readable(double x) {
  return x >= 100 && x < 1e6 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x);
}

// Says how the gradient changes on its way back through the layers.
std::string way_back(const std::vector<double>& gradients) {
  const double first = gradients.front(), last = gradients.back();
  if (!std::isfinite(first) || !std::isfinite(last)) return "the gradient overflows";
  if (last == 0) return "no gradient enters: the last activation is flat at this input";
  if (first == 0) return "no gradient reaches the first layer";
  return fmt::format("the gradient {} {}-fold from the last layer to the first",
                     first < last ? "shrinks" : "grows",
                     readable(std::max(first / last, last / first)));
}

void print_conclusion(const Run& plain, const Run& with) {
  fmt::print("Without shortcuts, {}.\nWith shortcuts, {}", way_back(plain.gradients),
             way_back(with.gradients));
  const double before = plain.gradients.front(), after = with.gradients.front();
  if (before > 0 && std::isfinite(after) && after > before) {
    fmt::print(".\nThe first layer gets {} times as much with them", readable(after / before));
  }
  fmt::print(
      ".\nA shortcut carries the gradient past a layer's weights and activation, which would "
      "shrink it.\n");
}

void print_report(const Options& options, const Run& plain, const Run& with) {
  std::vector<double> all = plain.gradients;
  all.insert(all.end(), with.gradients.begin(), with.gradients.end());
  const LogScale scale(all);
  fmt::print("{} layer{} of Linear + {}, {} wide with one output, seed {}\n", options.layers,
             options.layers == 1 ? "" : "s", name_of_enum(options.activation), options.width,
             options.seed);
  fmt::print(
      "Mean |gradient| of each layer's weight; bars on a logarithmic scale, 1e{} to 1e{}\n\n",
      scale.low, scale.high);
  print_bars("Without shortcuts", plain, scale);
  print_bars("With shortcuts", with, scale);
  if (options.layers == 1) {
    fmt::print("With one layer there is nothing that a shortcut could go around.\n");
  } else {
    print_conclusion(plain, with);
  }
}

void draw(const Options& options, const Run& plain, const Run& with) {
  BarChart chart{
      .title = "What shortcuts do to gradients",
      .subtitle = fmt::format("{} layers of Linear + {}, {} wide, seed {}", options.layers,
                              name_of_enum(options.activation), options.width, options.seed),
      .x_label = "layer (the loss is on the right)",
      .y_label = "mean |gradient| of the weight (log scale)",
      .labels = {},
      .series = {{"without shortcuts", plain.gradients}, {"with shortcuts", with.gradients}}};
  for (int i = 0; i < options.layers; ++i) chart.labels.push_back(std::to_string(i));
  write_file_atomically(options.svg, svg_of(chart));
  fmt::print("\nThe picture is in {}\n", options.svg);
}

int demo(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return 0;
  const Run plain = measure(options, false), with = measure(options, true);
  print_report(options, plain, with);
  if (!options.svg.empty()) draw(options, plain, with);
  return 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("gradient-demo", [&] { return tapegrad::demo(argc, argv); });
}
