// GELU by its two formulas, beside ReLU, with their slopes from the tape; and the layer it serves.

#include <functional>

#include "tapegrad/nn/layers.h"

using namespace tapegrad;

namespace {

// The derivative of f at each element of x.
Tensor slope(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  Tape tape;
  tape.watch(x);
  return tape.gradient(sum(f(x)), {x})[0];
}

void print_table() {
  const Tensor x = Tensor::from<double>({-4, -3, -2, -1, -0.75, -0.5, 0, 0.5, 1, 2, 3, 4}, {12});
  const Tensor by_tanh = gelu(x, Gelu::tanh), by_erf = gelu(x, Gelu::erf);
  const Tensor relu_slope = slope(relu, x);
  const Tensor gelu_slope = slope([](const Tensor& t) { return gelu(t); }, x);
  fmt::print("    x    ReLU  slope   GELU: tanh     slope        erf\n");
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    fmt::print("{:5.2f}  {:6.2f}  {:5.0f}    {:9.6f}  {:8.5f}  {:9.6f}\n", x.at(i), relu(x).at(i),
               relu_slope.at(i), by_tanh.at(i), gelu_slope.at(i), by_erf.at(i));
  }
}

void print_largest_difference() {
  std::vector<double> grid;
  for (int i = 0; i <= 500; ++i) grid.push_back(i / 100.0);
  const Tensor x = Tensor::from(grid, {501});
  const Tensor apart = abs(gelu(x, Gelu::tanh) - gelu(x, Gelu::erf));
  const std::int64_t worst = argmax(apart, 0).at(0);
  fmt::print("\nThe two formulas are furthest apart at |x| = {:.2f}: by {:.6f}\n", x.at(worst),
             apart.at(worst));
}

int lesson() {
  print_table();
  print_largest_difference();
  Rng rng(123);
  const nn::Params params(rng);
  const nn::FeedForward ff(params, 768, {.hidden = 4 * 768, .dropout = 0.1});
  const Tensor x = Tensor::ones({2, 3, 768});
  fmt::print("Feed-forward: {} -> {} -> {}\n", x.shape(), ff.c_fc(x).shape(), ff(x).shape());
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
