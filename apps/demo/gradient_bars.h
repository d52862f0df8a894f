#pragma once

#include <string>
#include <vector>

#include "tapegrad/nn/layers.h"

namespace tapegrad::demo {

// The experiment of gradient-demo: a chain of Linear + activation layers.
struct Experiment {
  int layers = 5;
  std::int64_t width = 3;
  std::uint64_t seed = 123;
  nn::Activation activation = nn::Activation::gelu;
};

struct Measured {
  double loss = 0;
  std::vector<double> gradients;  // mean |gradient| of each layer's weight
};

// Runs the chain forward and backward once, with or without shortcuts.
Measured measure(const Experiment& experiment, bool shortcuts);
// Bars and a conclusion, for a terminal.
void print_report(const Experiment& experiment, const Measured& plain, const Measured& with);
// The bars as an SVG file.
std::string svg_report(const Experiment& experiment, const Measured& plain, const Measured& with);

}  // namespace tapegrad::demo
