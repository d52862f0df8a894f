// Functions that are constant between jumps.

#include <cmath>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// The op y = f(x), whose gradient is 0 everywhere.
template <class F>
Tensor constant_between_jumps(std::string_view name, const Tensor& x, const F& f, OnnxRow row) {
  return apply(
      name, {x}, [f](Inputs in, Saved&) { return map(in[0], f); },
      [](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {Tensor::zeros(dy.shape(), dy.dtype())};
      },
      {.onnx = std::move(row)});
}

}  // namespace

// The processor rounds to even unless a program has changed its mode, which nothing here does.
Tensor round(const Tensor& x) {
  return constant_between_jumps(
      "round", x, [](auto v) { return std::nearbyint(v); }, "Round");
}

Tensor floor(const Tensor& x) {
  return constant_between_jumps(
      "floor", x, [](auto v) { return std::floor(v); }, "Floor");
}

Tensor ceil(const Tensor& x) {
  return constant_between_jumps(
      "ceil", x, [](auto v) { return std::ceil(v); }, "Ceil");
}

Tensor trunc(const Tensor& x) {
  return constant_between_jumps(
      "trunc", x, [](auto v) { return std::trunc(v); },
      [](OnnxCall& c) {
        return c("Mul", {c("Sign", {c.in(0)}), c("Floor", {c("Abs", {c.in(0)})})});
      });
}

Tensor sign(const Tensor& x) {
  return constant_between_jumps(
      "sign", x, [](auto v) { return static_cast<decltype(v)>((v > 0) - (v < 0)); }, "Sign");
}

}  // namespace tapegrad
