// Elementwise functions of angles, logarithms and exponentials near 0, and smooth forms of relu.

#include <cmath>
#include <limits>
#include <numbers>

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/kernels/internal/wide_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"
#include "tapegrad/autograd/ops/internal/unary.h"

namespace tapegrad {
namespace {

// An op y = exact(x), in f32 by way of `fast`, which is for elements up to kWideSines.
template <class Fast, class Exact>
Tensor circular(std::string_view name, const Tensor& x, const Fast& fast, const Exact& exact,
                UnaryVjp vjp, OnnxRow row) {
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
      },
      {.onnx = std::move(row)});
}

// silu(v) = v·σ(v) and its derivative σ(v)·(1 + v·(1 − σ(v))).
template <class T>
struct Silu {
  T v, gate;
  explicit Silu(T x) : v(x), gate(fast_sigmoid(x)) {}
  T value() const { return v * gate; }
  T derivative() const { return gate * (1 + v * (1 - gate)); }
};

// dy·σ(v), denormals of σ included: below −80, log(1 + eᵛ) and σ(v) are both eᵛ.
Tensor softplus_backward(const Tensor& dy, const Tensor& v) {
  const auto values = [](const Tensor& d, const Tensor& x) {
    return zip("softplus_backward", d, x,
               [](auto e, auto u) { return e * (u < -80 ? wide_softplus(u) : fast_sigmoid(u)); });
  };
  return times_slope("softplus_backward", dy, v, values, [](const Tensor& x) {
    return softplus_backward(Tensor::scalar(1, x.dtype()), x) * sigmoid(-x);
  });
}

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

// silu″(v) = σ(v)·σ(−v)·(2 + v·(σ(−v) − σ(v))).
Tensor silu_curvature(const Tensor& v) {
  const Tensor gate = sigmoid(v), rest = sigmoid(-v);
  return gate * rest * (v * (rest - gate) + 2.0);
}

// dy·silu′(v).
Tensor silu_backward(const Tensor& dy, const Tensor& v) {
  const auto values = [](const Tensor& d, const Tensor& x) {
    return zip("silu_backward", d, x, [](auto e, auto u) { return e * Silu(u).derivative(); });
  };
  return times_slope("silu_backward", dy, v, values, silu_curvature);
}

// Of (dy, gate, up) the derivatives of dgate = dy·up·silu′(gate) and dup = dy·silu(gate).
Grads swiglu_second_derivatives(Inputs cotangents, const Saved& saved, const Needs& needs) {
  const Tensor &dgate = cotangents[0], &dup = cotangents[1];
  const Tensor &dy = saved[0], &gate = saved[1], &up = saved[2];
  const Tensor slope = silu_backward(Tensor::scalar(1, dy.dtype()), gate);
  Grads grads(3);
  const auto add = [&](std::size_t i, const auto& term) {
    if (!needs[i]) return;
    const Tensor t = term();
    grads[i] = grads[i].defined() ? grads[i] + t : t;
  };
  if (dgate.defined()) {
    add(0, [&] { return quotient_of_products({dgate, up, slope}); });
    add(1, [&] { return quotient_of_products({dgate, dy, up, silu_curvature(gate)}); });
    add(2, [&] { return quotient_of_products({dgate, dy, slope}); });
  }
  if (dup.defined()) {
    add(0, [&] { return dup * silu(gate); });
    add(1, [&] { return quotient_of_products({dup, dy, slope}); });
  }
  return grads;
}

}  // namespace

Tensor sin(const Tensor& x) {
  return circular(
      "sin", x, [](float v) { return wide_sin(v); }, [](auto v) { return std::sin(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * cos(v); }, "Sin");
}

Tensor cos(const Tensor& x) {
  return circular(
      "cos", x, [](float v) { return wide_cos(v); }, [](auto v) { return std::cos(v); },
      [](const Tensor& dy, const Tensor& v) { return dy * -sin(v); }, "Cos");
}

Tensor tan(const Tensor& x) {
  return unary_of_result(
      "tan", x, [](auto v) { return static_cast<decltype(v)>(std::tan(static_cast<double>(v))); },
      [](const Tensor& dy, const Tensor& y) { return dy * (y * y + 1.0); }, {.onnx = "Tan"});
}

Tensor atan2(const Tensor& y, const Tensor& x) {
  return apply(
      "atan2", {y, x},
      [](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        return zip("atan2", in[0], in[1], [](auto a, auto b) {
          return static_cast<decltype(a)>(
              std::atan2(static_cast<double>(a), static_cast<double>(b)));
        });
      },
      [](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &a = saved[0], &b = saved[1];
        const Tensor square = a * a + b * b, none = eq(square, 0);
        const Tensor slope = masked_fill(dy / masked_fill(square, none, 1), none, 0);
        return {needs[0] ? sum_to(slope * b, a.shape()) : Tensor(),
                needs[1] ? sum_to(slope * -a, b.shape()) : Tensor()};
      });
}

Tensor log2(const Tensor& x) {
  return unary(
      "log2", x, [](auto v) { return static_cast<decltype(v)>(std::log2(static_cast<double>(v))); },
      [](const Tensor& dy, const Tensor& v) { return dy / (v * std::numbers::ln2); },
      {.onnx = [](OnnxCall& c) {
        return c("Div", {c("Log", {c.in(0)}), c.number(std::numbers::ln2)});
      }});
}

Tensor log1p(const Tensor& x) {
  return unary(
      "log1p", x, [](auto v) { return wide_log1p(v); },
      [](const Tensor& dy, const Tensor& v) { return dy / (v + 1.0); }, {.onnx = [](OnnxCall& c) {
        return c("Log", {c("Add", {c.in(0), c.number(1)})});
      }});
}

Tensor expm1(const Tensor& x) {
  return unary_of_result(
      "expm1", x, [](auto v) { return wide_expm1(v); },
      [](const Tensor& dy, const Tensor& y) { return dy * (y + 1.0); }, {.onnx = [](OnnxCall& c) {
        return c("Sub", {c("Exp", {c.in(0)}), c.number(1)});
      }});
}

Tensor softplus(const Tensor& x, double beta) {
  check(beta > 0, "[softplus] beta must be above 0, not {}", beta);
  return apply(
      "softplus", {x},
      [beta](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        if (beta == 1) return map(in[0], [](auto v) { return wide_softplus(v); });
        return map(in[0], [beta](auto v) {
          using T = decltype(v);
          const T scaled = v * static_cast<T>(beta);
          // Where βx overflows, x is all that is left of log(1 + e^βx)/β.
          return scaled > std::numeric_limits<T>::max()
                     ? v
                     : wide_softplus(scaled) / static_cast<T>(beta);
        });
      },
      [beta](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {softplus_backward(dy, beta == 1 ? saved[0] : saved[0] * beta)};
      },
      {.cheap = true, .onnx = [beta](OnnxCall& c) {
         if (beta == 1) return c("Softplus", {c.in(0)});
         const OnnxValue by = c.number(beta);
         return c("Div", {c("Softplus", {c("Mul", {c.in(0), by})}), by});
       }});
}

Tensor silu(const Tensor& x) {
  return unary("silu", x, [](auto v) { return Silu(v).value(); }, silu_backward,
               {.cheap = true, .onnx = [](OnnxCall& c) {
                  return c("Mul", {c.in(0), c("Sigmoid", {c.in(0)})});
                }});
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check(gate.shape() == up.shape(), "[swiglu] the shapes of gate {} and up {} differ", gate.shape(),
        up.shape());
  return apply(
      "swiglu", {gate, up},
      [](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        return zip("swiglu", in[0], in[1], [](auto g, auto u) { return Silu(g).value() * u; });
      },
      [](const Tensor& dy, const Saved& saved, const Needs&) {
        return apply_many(
            "swiglu_backward", std::vector{dy, saved[0], saved[1]},
            [](Inputs in, Saved& kept) {
              for (const Tensor& t : in) kept.keep(t);
              return swiglu_gradients(in[0], in[1], in[2]);
            },
            swiglu_second_derivatives);
      },
      {.cheap = true, .onnx = [](OnnxCall& c) {
         return c("Mul", {c("Mul", {c.in(0), c("Sigmoid", {c.in(0)})}), c.in(1)});
       }});
}

}  // namespace tapegrad
