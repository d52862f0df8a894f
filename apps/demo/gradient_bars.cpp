#include "tapegrad/apps/demo/gradient_bars.h"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tapegrad/apps/chart/chart_axis.h"
#include "tapegrad/apps/chart/svg_chart.h"
#include "tapegrad/apps/demo/residual_net.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::demo {
namespace {

// All layers but the last are `width` wide; the last has one output.
std::vector<std::int64_t> sizes_of(const Experiment& e) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(e.layers), e.width);
  list.push_back(1);
  return list;
}

std::vector<float> input_of(const Experiment& e) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < e.width; ++i) values.push_back(std::array{1.F, 0.F, -1.F}[i % 3]);
  return values;
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

void print_bars(const std::string& heading, const Measured& run, const charts::Axis& scale) {
  fmt::print("{} (loss {:.9g})\n", heading, run.loss);
  constexpr int text_columns = 42;
  const int columns = std::clamp(terminal_width() - text_columns, 8, 100);
  for (std::size_t i = 0; i < run.gradients.size(); ++i) {
    fmt::print("  {:<19} {:<17}  {}\n", fmt::format("layers.{}.0.weight", i),
               fmt::format("{:.9g}", run.gradients[i]),
               bar(scale.share(run.gradients[i]), columns));
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

void print_conclusion(const Measured& plain, const Measured& with) {
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

}  // namespace

Measured measure(const Experiment& experiment, bool shortcuts) {
  Rng rng(experiment.seed);
  const ResidualNet net(nn::Params(rng), sizes_of(experiment), shortcuts, experiment.activation);
  Tape tape;
  const Tensor loss = mse_loss(net(Tensor::from(input_of(experiment), {1, experiment.width})),
                               Tensor::zeros({1, 1}));
  tape.backward(loss);
  Measured result{.loss = loss.item(), .gradients = {}};
  for (const nn::Linear& layer : net.layers) {
    const Tensor grad = layer.weight.grad();
    double sum = 0;
    for (const float g : grad.values<float>()) sum += std::abs(static_cast<double>(g));
    result.gradients.push_back(sum / static_cast<double>(grad.numel()));
  }
  return result;
}

void print_report(const Experiment& experiment, const Measured& plain, const Measured& with) {
  charts::Axis scale{.logarithmic = true};
  for (const Measured* run : {&plain, &with}) {
    for (const double gradient : run->gradients) scale.add(gradient);
  }
  scale.widen_to_powers();
  fmt::print("{} of Linear + {}, {} wide with one output, seed {}\n",
             counted(experiment.layers, "layer"), name_of_enum(experiment.activation),
             experiment.width, experiment.seed);
  fmt::print(
      "Mean |gradient| of each layer's weight; bars on a logarithmic scale, 1e{} to 1e{}\n\n",
      scale.low, scale.high);
  print_bars("Without shortcuts", plain, scale);
  print_bars("With shortcuts", with, scale);
  if (experiment.layers == 1) {
    fmt::print("With one layer there is nothing that a shortcut could go around.\n");
  } else {
    print_conclusion(plain, with);
  }
}

std::string svg_report(const Experiment& experiment, const Measured& plain, const Measured& with) {
  charts::Chart chart{.title = "What shortcuts do to gradients",
                      .series = {{"without shortcuts", {}}, {"with shortcuts", {}}},
                      .bars = true,
                      .width = 108 + std::max(640, 24 * experiment.layers),
                      .height = 484};
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    chart.series[0].points.emplace_back(i, plain.gradients[i]);
    chart.series[1].points.emplace_back(i, with.gradients[i]);
  }
  return charts::svg_file(
      chart, {.subtitle = fmt::format("{} layers of Linear + {}, {} wide, seed {}",
                                      experiment.layers, name_of_enum(experiment.activation),
                                      experiment.width, experiment.seed),
              .x = "layer (the loss is on the right)",
              .y = "mean |gradient| of the weight (log scale)"});
}

}  // namespace tapegrad::demo
