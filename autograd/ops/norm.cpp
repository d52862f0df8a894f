#include <cmath>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/line_scale.h"

namespace tapegrad {
namespace {

// f(x) where x is not 0, and 0 without a gradient where it is.
template <class F>
Tensor unless_zero(const Tensor& x, const F& f) {
  const Tensor zero = eq(x, 0);
  return masked_fill(f(masked_fill(x, zero, 1)), zero, 0);
}

}  // namespace

Tensor norm(const Tensor& x, double p, const std::vector<int>& dims, bool keepdim) {
  check(p > 0 && std::isfinite(p),
        "[norm] p must be finite and above 0, not {}: max(abs(x)) is the norm of infinity", p);
  if (p == 1) return sum(abs(x), dims, keepdim);
  const std::vector<bool> marked = marked_dims("norm", x.shape(), dims);
  const Tensor norms = apply(
      "norm", {x},
      [=](Inputs in, Saved& saved) {
        const Tensor wide = saved.keep(in[0]).to(DType::f64);
        // f64 holds the squares of f32.
        if (p == 2 && in[0].dtype() == DType::f32) {
          return saved.keep(sqrt(sum(wide * wide, dims, true)).to(DType::f32));
        }
        // Other powers are those of numbers up to 1, and squares those of numbers below 2.
        const Tensor scale = p == 2 ? line_scale(wide, marked) : line_largest(wide, marked);
        const Tensor scaled = wide / scale;
        const Tensor powers = sum(p == 2 ? scaled * scaled : pow(abs(scaled), p), dims, true);
        const Tensor root = p == 2 ? sqrt(powers) : pow(powers, 1 / p);
        return saved.keep((root * scale).to(in[0].dtype()));
      },
      // (|x|/y)ᵖ⁻¹·sign(x)·dy, whose base is 1 at most.
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor &from = saved[0], &y = saved[1], zero = eq(y, 0);
        const Tensor ratio = from / masked_fill(y, zero, 1), passing = masked_fill(dy, zero, 0);
        if (p == 2) return {ratio * passing};
        const auto power = [p](const Tensor& v) { return pow(v, p - 1); };
        return {unless_zero(abs(ratio), power) * sign(from) * passing};
      },
      {.onnx = [=](OnnxCall& c) {
        return c.composed([&](Inputs in) {
          if (p == 2) return sqrt(sum(in[0] * in[0], dims, true));
          return pow(sum(pow(abs(in[0]), p), dims, true), 1 / p);
        });
      }});
  return keepdim ? norms : reshape(norms, kept_shape(x.shape(), marked, false));
}

}  // namespace tapegrad
