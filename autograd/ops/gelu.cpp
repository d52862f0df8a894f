#include <cmath>
#include <numbers>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"

namespace tapegrad {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// The tanh form is x·σ(2u) with u = √(2/π)·(x + 0.044715·x³), since (1 + tanh u)/2 = σ(2u): one
// exponential. x² is limited where σ has long been 0 or 1, so that nothing overflows to 0·∞.
template <class T>
struct TanhForm {
  T gate, slope;  // σ(2u) and d(2u)/dx
  explicit TanhForm(T x) {
    const T x2 = x * x < T{1e6} ? x * x : T{1e6};
    const T c = static_cast<T>(kCubic), k = static_cast<T>(2 * kSqrt2OverPi);
    gate = 1 / (1 + fast_exp(-k * x * (1 + c * x2)));
    slope = k * (1 + 3 * c * x2);
  }
  T value(T x) const { return x * gate; }
  T derivative(T x) const { return gate + x * gate * (1 - gate) * slope; }
};

// x·Φ(x), with derivative Φ(x) + x·φ(x).
template <class T>
struct ErfForm {
  T cdf;
  explicit ErfForm(T x)
      : cdf(T{0.5} * (1 + fast_erf(x * static_cast<T>(1 / std::numbers::sqrt2)))) {}
  T value(T x) const { return x * cdf; }
  T derivative(T x) const {
    const T pdf =
        fast_exp(T{-0.5} * x * x) * static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return cdf + x * pdf;
  }
};

// The second derivatives. Beyond ±100, σ and φ are 0 or 1 in any dtype, and their factors are those
// of ±100, so that nothing overflows to 0·∞.

// With s = σ(2u), m = σ(−2u) and the derivatives w′, w″ of 2u: s·m·(2w′ + x·((m − s)·w′² + w″)).
Tensor tanh_form_curvature(const Tensor& x) {
  constexpr double k = 2 * kSqrt2OverPi;
  const Tensor near = clamp(x, -100, 100), square = near * near;
  const Tensor u2 = near * (square * (k * kCubic) + k);
  const Tensor s = sigmoid(u2), m = sigmoid(-u2), bump = s * m;
  const Tensor slope = square * (3 * k * kCubic) + k;
  return bump * slope * 2.0 + x * bump * ((m - s) * slope * slope + near * (6 * k * kCubic));
}

// φ(x)·(2 − x²), of which a half of φ's exponent limits x.
Tensor erf_form_curvature(const Tensor& x) {
  const Tensor root = exp(x * x * -0.25), scaled = x * root;
  return (root * root * 2.0 - scaled * scaled) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

// Nodes that runtimes know as one op.
OnnxValue tanh_form(OnnxCall& c) {
  const OnnxValue x = c.in(0);
  const OnnxValue cubic = c("Mul", {c("Pow", {x, c.number(3)}), c.number(kCubic)});
  const OnnxValue inner = c("Mul", {c("Add", {x, cubic}), c.number(kSqrt2OverPi)});
  const OnnxValue raised = c("Add", {c("Tanh", {inner}), c.number(1)});
  return c("Mul", {c("Mul", {x, c.number(0.5)}), raised});
}
OnnxValue erf_form(OnnxCall& c) {
  const OnnxValue erf = c("Erf", {c("Div", {c.in(0), c.number(std::numbers::sqrt2)})});
  return c("Mul", {c("Mul", {c.in(0), c("Add", {erf, c.number(1)})}), c.number(0.5)});
}

template <template <class> class Form>
Tensor gelu_op(std::string_view name, std::string_view backward_name, const Tensor& x,
               Curvature curvature, OnnxRow row) {
  return apply(
      name, {x},
      [](Inputs in, Saved& saved) {
        return map(saved.keep(in[0]), [](auto v) { return Form<decltype(v)>(v).value(v); });
      },
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const auto values = [backward_name](const Tensor& d, const Tensor& from) {
          return zip(backward_name, d, from,
                     [](auto e, auto v) { return e * Form<decltype(v)>(v).derivative(v); });
        };
        return {times_slope(backward_name, dy, saved[0], values, curvature)};
      },
      {.cheap = true, .onnx = std::move(row)});
}

}  // namespace

Tensor gelu(const Tensor& x, Gelu form) {
  return form == Gelu::tanh
             ? gelu_op<TanhForm>("gelu", "gelu_backward", x, tanh_form_curvature, tanh_form)
             : gelu_op<ErfForm>("gelu_erf", "gelu_erf_backward", x, erf_form_curvature, erf_form);
}

}  // namespace tapegrad
