#include <limits>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// Of one pair: the limited gate g and up u, and σ(alpha·g). NaN stays, as in clamp().
template <class T>
struct Gated {
  T gate, up, sigmoid;
  bool gate_passes, up_passes;
  Gated(T g, T u, T alpha, T limit)
      : gate(g > limit ? limit : g),
        up(u > limit    ? limit
           : u < -limit ? -limit
                        : u),
        sigmoid(fast_sigmoid(alpha * gate)),
        gate_passes(!(g > limit)),
        up_passes(!(u > limit || u < -limit)) {}
  T value() const { return gate * sigmoid * (up + 1); }
  T gate_slope(T alpha) const {
    return gate_passes ? (up + 1) * sigmoid * (1 + alpha * gate * (1 - sigmoid)) : T{0};
  }
  T up_slope() const { return up_passes ? gate * sigmoid : T{0}; }
};

// Calls f(i, Gated) for all elements.
template <class T, class F>
void for_pairs(Inputs x, const ClampedSwiglu& options, const F& f) {
  const T *gate = x[0].data<T>(), *up = x[1].data<T>();
  const auto alpha = static_cast<T>(options.alpha), limit = static_cast<T>(options.limit);
  parallel_for(x[0].numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i, Gated<T>(gate[i], up[i], alpha, limit));
  });
}

Tensor values_of(Inputs x, const ClampedSwiglu& options) {
  Tensor y = Tensor::empty(x[0].shape(), x[0].dtype());
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = y.mutable_data<T>();
    for_pairs<T>(x, options, [=](std::int64_t i, const Gated<T>& pair) { to[i] = pair.value(); });
  });
  return y;
}

Grads gradients_of(const Tensor& dy, Inputs x, const ClampedSwiglu& options) {
  Tensor dgate = Tensor::empty(dy.shape(), dy.dtype()), dup = Tensor::empty(dy.shape(), dy.dtype());
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const d = dy.data<T>();
    T *const dg = dgate.mutable_data<T>(), *const du = dup.mutable_data<T>();
    const auto alpha = static_cast<T>(options.alpha);
    for_pairs<T>(x, options, [=](std::int64_t i, const Gated<T>& pair) {
      dg[i] = d[i] * pair.gate_slope(alpha);
      du[i] = d[i] * pair.up_slope();
    });
  });
  return {dgate, dup};
}

Tensor composed(Inputs x, const ClampedSwiglu& options) {
  const Tensor gate = clamp(x[0], -std::numeric_limits<double>::infinity(), options.limit);
  const Tensor up = clamp(x[1], -options.limit, options.limit);
  return gate * sigmoid(gate * options.alpha) * (up + 1.0);
}

}  // namespace

Tensor clamped_swiglu(const Tensor& gate, const Tensor& up, const ClampedSwiglu& options) {
  check(gate.shape() == up.shape(), "[clamped_swiglu] the shapes of gate {} and up {} differ",
        gate.shape(), up.shape());
  check(gate.dtype() == up.dtype(), "[clamped_swiglu] dtypes differ: {} and {}",
        name_of(gate.dtype()), name_of(up.dtype()));
  check_numbers("ClampedSwiglu",
                {{"alpha", options.alpha, above(0)}, {"limit", options.limit, above(0)}});
  return apply_fused({gate, up},
                     {.name = "clamped_swiglu",
                      .backward_name = "clamped_swiglu_backward",
                      .forward =
                          [options](Inputs x, const Needs&) {
                            return FusedOp::Output{values_of(x, options), {}};
                          },
                      .backward = [options](const Tensor& dy, Inputs x, Inputs,
                                            const Needs&) { return gradients_of(dy, x, options); },
                      .reference = [options](Inputs x) { return composed(x, options); },
                      .cheap = true});
}

}  // namespace tapegrad
