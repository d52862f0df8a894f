// Forms of relu with a dip below 0, whose derivatives are one factor of dy: what comes in may be
// infinite, and the derivative negative.

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/kernels/internal/wide_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"
#include "tapegrad/autograd/ops/internal/unary.h"

namespace tapegrad {
namespace {

// mish″ with s = σ(v) and t = tanh(softplus(v)).
Tensor mish_curvature(const Tensor& v) {
  const Tensor s = sigmoid(v), t = tanh(softplus(v));
  return s * (1.0 - t * t) * (v * (sigmoid(-v) - 2.0 * t * s) + 2.0);
}

// dy·mish′(v), with mish′ = t + v·s·(1 − t²).
Tensor mish_backward(const Tensor& dy, const Tensor& v) {
  const auto values = [](const Tensor& d, const Tensor& x) {
    return zip("mish_backward", d, x, [](auto e, auto u) {
      const auto t = fast_tanh(wide_softplus(u));
      return e * (t + u * fast_sigmoid(u) * (1 - t * t));
    });
  };
  return times_slope("mish_backward", dy, v, values, mish_curvature);
}

}  // namespace

Tensor mish(const Tensor& x) {
  return unary("mish", x, [](auto v) { return v * fast_tanh(wide_softplus(v)); }, mish_backward,
               {.onnx = [](OnnxCall& c) {
                 return c("Mul", {c.in(0), c("Tanh", {c("Softplus", {c.in(0)})})});
               }});
}

Tensor hardswish(const Tensor& x) {
  return unary(
      "hardswish", x,
      [](auto v) {
        using T = decltype(v);
        const T raised = v + 3 < 0 ? T(0) : (v + 3 > 6 ? T(6) : v + 3);
        return v * raised / 6;
      },
      [](const Tensor& dy, const Tensor& v) {
        const Tensor line = dy * (v / 3.0 + 0.5);
        return masked_fill(where(v < 3.0, line, dy), v <= -3.0, 0);
      },
      {.onnx = "HardSwish"});
}

}  // namespace tapegrad
