#pragma once

#include <concepts>
#include <functional>
#include <utility>
#include <vector>

#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// Callables of Tensor → Tensor, one after the other: layers, ops and lambdas. One that also takes
// an Rng* gets the call's; a layer that needs more, as BatchNorm its Mode, stands in a lambda. For
// the names of PyTorch's nn.Sequential, each layer is made at its place among all steps.
//
//   const nn::Sequential net{nn::Linear(p / 0, 4, 8), relu, nn::Linear(p / 2, 8, 1)};
//
// Braces make the layers from left to right, so that they draw as PyTorch's do. In parentheses, C++
// leaves the order to the compiler.
class Sequential {
 public:
  using Step = std::function<Tensor(const Tensor& x, Rng* rng)>;
  template <class... F>
  requires(sizeof...(F) > 1 ||
           (!std::same_as<F, Sequential> && ...)) explicit Sequential(F... steps)
      : steps_{step_of(std::move(steps))...} {}

  void append(Step step) { steps_.push_back(std::move(step)); }
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const {
    Tensor y = x;
    for (const Step& step : steps_) y = step(y, rng);
    return y;
  }

 private:
  template <class F>
  static Step step_of(F f) {
    if constexpr (std::invocable<const F&, const Tensor&, Rng*>)
      return f;
    else
      return [f = std::move(f)](const Tensor& x, Rng*) { return f(x); };
  }

  std::vector<Step> steps_;
};

}  // namespace tapegrad::nn
