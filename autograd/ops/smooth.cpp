// Elementwise functions with a derivative everywhere: sines, logarithms and exponentials near 0,
// and smooth forms of relu.

#include <cmath>

#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/ops/fused.h"
#include "tapegrad/autograd/ops/unary.h"

namespace tapegrad {

Tensor sin(const Tensor& x) {
  return unary(
      "sin", x, [](auto v) { return std::sin(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * cos(v); });
}

Tensor cos(const Tensor& x) {
  return unary(
      "cos", x, [](auto v) { return std::cos(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * -sin(v); });
}

Tensor log1p(const Tensor& x) {
  return unary(
      "log1p", x, [](auto v) { return std::log1p(v); },
      [](const Tensor& dy, const Tensor& v) { return dy / (v + 1.0); });
}

Tensor expm1(const Tensor& x) {
  return unary_of_result(
      "expm1", x, [](auto v) { return std::expm1(v); },
      [](const Tensor& dy, const Tensor& y) { return dy * (y + 1.0); });
}

Tensor softplus(const Tensor& x, double beta) {
  check(beta > 0, "[softplus] beta must be above 0, not {}", beta);
  if (beta != 1) return softplus(x * beta) / beta;
  return unary(
      "softplus", x,
      [](auto v) {
        const auto rest = std::log1p(fast_exp_gradual(-std::abs(v)));
        return v > 0 ? v + rest : rest;
      },
      [](const Tensor& dy, const Tensor& v) { return dy * sigmoid(v); }, {.cheap = true});
}

Tensor silu(const Tensor& x) {
  return apply_fused({x},
                     {.name = "silu",
                      .backward_name = "silu_backward",
                      .forward = [](Inputs in, const Needs&) -> FusedOp::Output {
                        return {map(in[0], [](auto v) { return v * fast_sigmoid(v); }), {}};
                      },
                      .backward = [](const Tensor& dy, Inputs in, Inputs, const Needs&) -> Grads {
                        return {zip("silu_backward", dy, in[0], [](auto d, auto v) {
                          const auto gate = fast_sigmoid(v);
                          return d * (gate * (1 + v * (1 - gate)));
                        })};
                      },
                      .reference = [](Inputs in) { return in[0] * sigmoid(in[0]); },
                      .cheap = true});
}

}  // namespace tapegrad
