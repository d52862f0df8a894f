// A physics-informed network (Raissi, Perdikaris & Karniadakis, 2019) solves the heat equation
// u_t = k·u_xx on 0 <= x, t <= 1 with u(x, 0) = sin πx and u(0, t) = u(1, t) = 0. The network is
// u(x, t); the loss is what the equation and the conditions leave, so no solution is shown to it.
//
//   pinn [STEPS]    trains, and prints the error against exp(−kπ²t)·sin πx

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <cmath>
#include <cstdlib>
#include <numbers>

using namespace tapegrad;

constexpr double kConductivity = 0.1, kPi = std::numbers::pi;

struct Network {
  nn::Linear l1, l2, l3, l4, out;
  explicit Network(const nn::Params& p)
      : l1(p / "l1", 2, 64),
        l2(p / "l2", 64, 64),
        l3(p / "l3", 64, 64),
        l4(p / "l4", 64, 64),
        out(p / "out", 64, 1) {}
  // Points (n, 2), x and t, → u (n, 1).
  Tensor operator()(const Tensor& points) const {
    return out(tanh(l4(tanh(l3(tanh(l2(tanh(l1(points)))))))));
  }
};

// u_t − k·u_xx (n, 1). Tapes nest: `second` records the backward of `first`, and the caller's tape,
// which is for the parameters, both.
Tensor residual(const Network& u, const Tensor& points) {
  Tape second;
  second.watch(points);
  Grads du;  // u_x and u_t at each point
  {
    Tape first;
    first.watch(points);
    du = first.gradient(sum(u(points)), {points});
  }
  const Tensor u_x = slice(du[0], 1, 0, 1), u_t = slice(du[0], 1, 1, 2);
  const Tensor u_xx = slice(second.gradient(sum(u_x), {points})[0], 1, 0, 1);
  return u_t - kConductivity * u_xx;
}

// The largest and the relative error on a grid of 101 × 101.
void print_errors(const Network& u) {
  const TapePause unrecorded;
  double largest = 0, squares = 0, all = 0;
  const Tensor grid = Tensor::linspace(0, 1, 101);
  for (std::int64_t i = 0; i < 101; ++i) {
    const double t = static_cast<double>(i) / 100;
    const Tensor found = u(stack({grid, Tensor::full({101}, t)}, 1));
    for (std::int64_t j = 0; j < 101; ++j) {
      const double exact = std::exp(-kConductivity * kPi * kPi * t) * std::sin(kPi * grid.at(j));
      const double error = found.at(j) - exact;
      largest = std::max(largest, std::abs(error));
      squares += error * error;
      all += exact * exact;
    }
  }
  fmt::print("largest error {:.5f}, relative error {:.5f}\n", largest, std::sqrt(squares / all));
}

void train(std::int64_t steps) {
  Rng weights(1), places(2);
  const nn::Params params(weights);
  const Network u(params);
  optim::Adam adam(params.parameters());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Tensor inside = Tensor::uniform({500, 2}, places);
    const Tensor x = Tensor::uniform({100, 1}, places), t = Tensor::uniform({100, 1}, places);
    const Tensor zero = Tensor::zeros({100, 1}), one = Tensor::ones({100, 1});
    Tape tape;
    const Tensor left = residual(u, inside), begin = u(concat({x, zero}, 1)) - sin(kPi * x);
    const Tensor edges = u(concat({concat({zero, t}, 1), concat({one, t}, 1)}, 0));
    const Tensor equation = mean(left * left);
    const Tensor conditions = mean(begin * begin) + mean(edges * edges);
    tape.backward(equation + 10.0 * conditions);
    // The rate falls to 0 as a quarter of a cosine wave.
    adam.step(2e-3 *
              std::cos(kPi / 2 * static_cast<double>(step - 1) / static_cast<double>(steps)));
    adam.zero_grad();
    if (step % 500 == 0 || step == steps) {
      fmt::print("step {}: equation {:.2e}, conditions {:.2e}; ", step, equation.item(),
                 conditions.item());
      print_errors(u);
    }
  }
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 3000;
  if (argc > 2 || steps < 1) {
    fmt::print(stderr, "usage: pinn [STEPS]\n");
    return 2;
  }
  try {
    train(steps);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
