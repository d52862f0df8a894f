#include <cmath>
#include <numbers>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/ops/fused.h"

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

Tensor gelu_reference(const Tensor& x, Gelu form) {
  if (form == Gelu::erf) return x * 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
  return x * 0.5 * (1.0 + tanh((x + x * x * x * kCubic) * kSqrt2OverPi));
}

template <template <class> class Form>
Tensor gelu_op(std::string_view name, std::string_view backward_name, const Tensor& x, Gelu form) {
  return apply_fused(
      {x}, {.name = name,
            .backward_name = backward_name,
            .forward = [](Inputs in, const Needs&) -> FusedOp::Output {
              return {map(in[0], [](auto v) { return Form<decltype(v)>(v).value(v); }), {}};
            },
            .backward = [=](const Tensor& dy, Inputs in, Inputs, const Needs&) -> Grads {
              return {zip(backward_name, dy, in[0],
                          [](auto d, auto v) { return d * Form<decltype(v)>(v).derivative(v); })};
            },
            .reference = [form](Inputs in) { return gelu_reference(in[0], form); },
            .cheap = true});
}

}  // namespace

Tensor gelu(const Tensor& x, Gelu form) {
  return form == Gelu::tanh ? gelu_op<TanhForm>("gelu", "gelu_backward", x, form)
                            : gelu_op<ErfForm>("gelu_erf", "gelu_erf_backward", x, form);
}

}  // namespace tapegrad
