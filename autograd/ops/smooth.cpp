// Elementwise functions with a derivative everywhere: sines, logarithms and exponentials near 0,
// and smooth forms of relu.

#include <cmath>

#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/kernels/wide_math.h"
#include "tapegrad/autograd/ops/fused.h"
#include "tapegrad/autograd/ops/unary.h"

namespace tapegrad {
namespace {

// An op y = exact(x), in f32 by way of `fast`, which is for elements up to kWideSines.
template <class Fast, class Exact>
Tensor circular(std::string_view name, const Tensor& x, const Fast& fast, const Exact& exact,
                UnaryVjp vjp) {
  return apply(
      name, {x},
      [=](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        if (in[0].dtype() != DType::f32) return map(in[0], exact);
        Tensor y = Tensor::empty(in[0].shape());
        const float* from = in[0].data<float>();
        float* to = y.mutable_data<float>();
        parallel_for(y.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) to[i] = fast(from[i]);
          for (std::int64_t i = begin; i < end; ++i) {
            if (!(std::abs(from[i]) <= kWideSines)) to[i] = exact(from[i]);
          }
        });
        return y;
      },
      [vjp](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {vjp(dy, saved[0])};
      });
}

// silu(v) = v·σ(v) and its derivative σ(v)·(1 + v·(1 − σ(v))).
template <class T>
struct Silu {
  T v, gate;
  explicit Silu(T x) : v(x), gate(fast_sigmoid(x)) {}
  T value() const { return v * gate; }
  T derivative() const { return gate * (1 + v * (1 - gate)); }
};

// The gradients of gate and up, in one pass over the three.
Grads swiglu_gradients(const Tensor& dy, const Tensor& gate, const Tensor& up) {
  Tensor dgate = Tensor::empty(gate.shape(), gate.dtype()),
         dup = Tensor::empty(up.shape(), up.dtype());
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *d = dy.data<T>(), *g = gate.data<T>(), *u = up.data<T>();
    T *dg = dgate.mutable_data<T>(), *du = dup.mutable_data<T>();
    parallel_for(dy.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Silu<T> silu(g[i]);
        dg[i] = d[i] * u[i] * silu.derivative();
        du[i] = d[i] * silu.value();
      }
    });
  });
  return {dgate, dup};
}

}  // namespace

Tensor sin(const Tensor& x) {
  return circular(
      "sin", x, [](float v) { return wide_sin(v); }, [](auto v) { return std::sin(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * cos(v); });
}

Tensor cos(const Tensor& x) {
  return circular(
      "cos", x, [](float v) { return wide_cos(v); }, [](auto v) { return std::cos(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * -sin(v); });
}

Tensor log1p(const Tensor& x) {
  return unary(
      "log1p", x, [](auto v) { return wide_log1p(v); },
      [](const Tensor& dy, const Tensor& v) { return dy / (v + 1.0); });
}

Tensor expm1(const Tensor& x) {
  return unary_of_result(
      "expm1", x, [](auto v) { return wide_expm1(v); },
      [](const Tensor& dy, const Tensor& y) { return dy * (y + 1.0); });
}

Tensor softplus(const Tensor& x, double beta) {
  check(beta > 0, "[softplus] beta must be above 0, not {}", beta);
  if (beta != 1) return softplus(x * beta) / beta;
  return unary(
      "softplus", x, [](auto v) { return wide_softplus(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * sigmoid(v); }, {.cheap = true});
}

Tensor silu(const Tensor& x) {
  return apply_fused({x},
                     {.name = "silu",
                      .backward_name = "silu_backward",
                      .forward = [](Inputs in, const Needs&) -> FusedOp::Output {
                        return {map(in[0], [](auto v) { return Silu(v).value(); }), {}};
                      },
                      .backward = [](const Tensor& dy, Inputs in, Inputs, const Needs&) -> Grads {
                        return {zip("silu_backward", dy, in[0],
                                    [](auto d, auto v) { return d * Silu(v).derivative(); })};
                      },
                      .reference = [](Inputs in) { return in[0] * sigmoid(in[0]); },
                      .cheap = true});
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check(gate.shape() == up.shape(), "[swiglu] the shapes of gate {} and up {} differ", gate.shape(),
        up.shape());
  return apply_fused({gate, up},
                     {.name = "swiglu",
                      .backward_name = "swiglu_backward",
                      .forward = [](Inputs in, const Needs&) -> FusedOp::Output {
                        const auto f = [](auto g, auto u) { return Silu(g).value() * u; };
                        return {zip("swiglu", in[0], in[1], f), {}};
                      },
                      .backward = [](const Tensor& dy, Inputs in, Inputs,
                                     const Needs&) { return swiglu_gradients(dy, in[0], in[1]); },
                      .reference = [](Inputs in) { return in[0] * sigmoid(in[0]) * in[1]; },
                      .cheap = true});
}

}  // namespace tapegrad
