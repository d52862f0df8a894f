#pragma once

#include <functional>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

namespace tapegrad::testing {

using Function = std::function<Tensor(Inputs)>;

// Compares values and gradients; f32's are compared with those of `composed` in f64.
inline void compare(const Function& fused, const Function& composed,
                    const std::vector<Tensor>& inputs) {
  const auto run = [&](const Function& f, DType dtype) {
    std::vector<Tensor> in;
    for (const Tensor& x : inputs) in.push_back(x.to(dtype));
    Tape tape;
    for (const Tensor& x : in) tape.watch(x);
    const Tensor y = f(in);
    Rng rng(7);
    Grads result = tape.gradient(y, in, {.seeds = {normal(rng, y.shape()).to(dtype)}});
    result.push_back(y);
    return result;
  };
  const Grads expected = run(composed, DType::f64), f64 = run(fused, DType::f64),
              f32 = run(fused, DType::f32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO((i + 1 == expected.size() ? "value" : "gradient " + std::to_string(i)));
    CHECK(difference(f64[i], expected[i], 1e-11, 1e-12) == "");
    CHECK(difference(f32[i].to(DType::f64), expected[i], 1e-4, 2e-5) == "");
  }
}

}  // namespace tapegrad::testing
