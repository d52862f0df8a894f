#include <cmath>
#include <numbers>

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"
#include "tapegrad/autograd/ops/internal/unary.h"

namespace tapegrad {
namespace {

// dy brought to the shape of an operand that was broadcast; undefined if it is not needed.
Tensor when(bool needed, const Shape& shape, const std::function<Tensor()>& gradient) {
  return needed ? sum_to(gradient(), shape) : Tensor();
}

// dy·share(key), but 0 where the share is 0, even if dy is infinite or NaN: no gradient passes
// there. The share is constant between its jumps, so that the key gets no gradient.
template <class F>
Tensor pass(const Tensor& dy, const Tensor& key, const F& share) {
  return apply(
      "pass", {dy},
      [=](Inputs in, Saved& saved) {
        return zip("pass", in[0], saved.keep(key), [share](auto d, auto k) {
          using D = decltype(d);
          // Without a jump: a processor would guess it wrong for half of relu's elements.
          if constexpr (std::is_same_v<decltype(share(k)), bool>) return share(k) ? d : D{0};
          const auto s = static_cast<D>(share(k));
          return s == 0 ? s : d * s;
        });
      },
      [share, shape = dy.shape()](const Tensor& d, const Saved& saved, const Needs&) -> Grads {
        return {sum_to(pass(d, saved[0], share), shape)};
      });
}

// x and y as i64 and the dtype that does not hold what an op makes of them.
template <class Overflows>
[[noreturn]] void fail_overflow(std::string_view name, std::int64_t x, std::int64_t y, DType dtype,
                                const Overflows& overflows) {
  std::int64_t wide = 0;
  if (overflows(x, y, &wide)) {
    fail("[{}] {} and {} give a number that {} does not hold", name, x, y, name_of(dtype));
  }
  fail("[{}] {} and {} give {}, which {} does not hold", name, x, y, wide, name_of(dtype));
}

// An op on integers or truth values, which no tape tracks. overflows(x, y, &result) is true if
// the result's type does not hold it.
template <class Overflows>
Tensor integers(std::string_view name, const Tensor& a, const Tensor& b,
                const Overflows& overflows) {
  const DType dtype = promoted(name, a.dtype(), b.dtype());
  if (a.dtype() != dtype) return integers(name, a.to(dtype), b, overflows);
  if (b.dtype() != dtype) return integers(name, a, b.to(dtype), overflows);
  const BroadcastPlan plan = plan_broadcast(name, a.shape(), b.shape());
  Tensor out = Tensor::empty(plan.shape, dtype);
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      zip_to(plan, a.data<T>(), b.data<T>(), out.mutable_data<T>(), [&](T x, T y) {
        T z = 0;
        if (overflows(x, y, &z)) fail_overflow(name, x, y, dtype, overflows);
        return z;
      });
    } else {
      fail("[{}] this op does not work in {}; convert it, as in x.to(DType::i32)", name,
           name_of(dtype));
    }
  });
  return out;
}

bool are_integers(const Tensor& a, const Tensor& b) {
  return !is_float(a.dtype()) || !is_float(b.dtype());
}
// f(a, b), elementwise, of integers or truth values: one of the two.
template <class F>
Tensor one_of(std::string_view name, const Tensor& a, const Tensor& b, const F& f) {
  const DType dtype = promoted(name, a.dtype(), b.dtype());
  const BroadcastPlan plan = plan_broadcast(name, a.shape(), b.shape());
  const Tensor x = a.to(dtype), y = b.to(dtype);
  Tensor out = Tensor::empty(plan.shape, dtype);
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    zip_to(plan, x.data<T>(), y.data<T>(), out.mutable_data<T>(), f);
  });
  return out;
}

constexpr auto larger = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto smaller = [](auto x, auto y) { return y < x ? y : x; };

// An infinite limit is none.
Tensor integer_clamp(const Tensor& x, double low, double high) {
  Tensor y = x.dtype() == DType::boolean ? x.to(DType::i64) : x;
  if (low != -INFINITY) y = one_of("clamp", y, scalar_like(y, low), larger);
  return high == INFINITY ? y : one_of("clamp", y, scalar_like(y, high), smaller);
}

bool are_bools(const Tensor& a, const Tensor& b) {
  return a.dtype() == DType::boolean && b.dtype() == DType::boolean;
}

Tensor number(double value, const Tensor& like) { return Tensor::scalar(value, like.dtype()); }

}  // namespace

Tensor scalar_like(const Tensor& x, double value) {
  const DType dtype = x.dtype() == DType::boolean ? DType::i64 : x.dtype();
  // As an operand, a number that f32 does not hold is infinite, as in PyTorch.
  if (dtype == DType::f32) value = static_cast<double>(static_cast<float>(value));
  check(is_float(dtype) || (holds(dtype, value) && value == std::trunc(value)),
        "{} is no number of a tensor of {}", value, name_of(x.dtype()));
  return Tensor::scalar(value, dtype);
}

Tensor add(const Tensor& a, const Tensor& b) {
  if (are_bools(a, b)) return logical_or(a, b);
  if (are_integers(a, b)) {
    return integers("add", a, b,
                    [](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); });
  }
  return apply(
      "add", {a, b},
      [](Inputs in, Saved&) {
        return zip("add", in[0], in[1], [](auto x, auto y) { return x + y; });
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved&,
                                       const Needs& needs) -> Grads {
        return {when(needs[0], as, [&] { return dy; }), when(needs[1], bs, [&] { return dy; })};
      },
      {.onnx = "Add"});
}

Tensor sub(const Tensor& a, const Tensor& b) {
  if (are_integers(a, b)) {
    return integers("sub", a, b,
                    [](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); });
  }
  return apply(
      "sub", {a, b},
      [](Inputs in, Saved&) {
        return zip("sub", in[0], in[1], [](auto x, auto y) { return x - y; });
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved&,
                                       const Needs& needs) -> Grads {
        return {when(needs[0], as, [&] { return dy; }), when(needs[1], bs, [&] { return -dy; })};
      },
      {.onnx = "Sub"});
}

Tensor mul(const Tensor& a, const Tensor& b) {
  if (are_bools(a, b)) return logical_and(a, b);
  if (are_integers(a, b)) {
    return integers("mul", a, b,
                    [](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); });
  }
  return apply(
      "mul", {a, b},
      [](Inputs in, Saved& saved) {
        saved.keep(saved.needs(1) ? in[0] : Tensor());
        saved.keep(saved.needs(0) ? in[1] : Tensor());
        return zip("mul", in[0], in[1], [](auto x, auto y) { return x * y; });
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved& saved,
                                       const Needs& needs) -> Grads {
        return {when(needs[0], as, [&] { return dy * saved[1]; }),
                when(needs[1], bs, [&] { return dy * saved[0]; })};
      },
      {.onnx = "Mul"});
}

Tensor div(const Tensor& a, const Tensor& b) {
  if (!is_float(promoted("div", a.dtype(), b.dtype()))) {
    return div(a.to(DType::f64), b.to(DType::f64));
  }
  return apply(
      "div", {a, b},
      [](Inputs in, Saved& saved) {
        const Tensor quotient = zip("div", in[0], in[1], [](auto x, auto y) { return x / y; });
        saved.keep(in[1]);
        saved.keep(saved.needs(1) ? quotient : Tensor());
        return quotient;
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved& saved,
                                       const Needs& needs) -> Grads {
        // −dy·a/b² without the square, which would leave f32's range for b beyond 1e19 and 1e-23.
        const Tensor& divisor = saved[0];
        return {when(needs[0], as, [&] { return dy / divisor; }), when(needs[1], bs, [&] {
                  return quotient_of_products({-dy, saved[1]}, {divisor});
                })};
      },
      {.onnx = "Div"});
}

Tensor pow(const Tensor& a, const Tensor& b) {
  return apply(
      "pow", {a, b},
      [](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        saved.keep(in[1]);
        return zip("pow", in[0], in[1], [](auto x, auto y) { return std::pow(x, y); });
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved& saved,
                                       const Needs& needs) -> Grads {
        const Tensor &x = saved[0], &y = saved[1];
        // No gradient passes where `blocked`. There x is taken as 1, so that the powers and
        // logarithms, and their derivatives, are finite.
        const auto passing = [&](const Tensor& blocked, const auto& slope) {
          return where(blocked, number(0, dy), dy * slope(where(blocked, number(1, x), x)));
        };
        const auto slope_of_x = [&](const Tensor& base) { return y * pow(base, y - 1.0); };
        const auto slope_of_y = [&](const Tensor& base) { return pow(base, y) * log(base); };
        const auto power_of_zero = [&] {
          return zip<std::uint8_t>("pow", x, y, [](auto u, auto v) { return u == 0 && v >= 0; });
        };
        return {when(needs[0], as, [&] { return passing(eq(y, 0), slope_of_x); }),
                when(needs[1], bs, [&] { return passing(power_of_zero(), slope_of_y); })};
      },
      {.onnx = "Pow"});
}

Tensor pow(const Tensor& a, double b) { return pow(a, scalar_like(a, b)); }

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (are_integers(a, b)) return one_of("maximum", a, b, larger);
  return apply(
      "maximum", {a, b},
      [](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        saved.keep(in[1]);
        return zip("maximum", in[0], in[1],
                   [](auto x, auto y) { return x > y || std::isnan(x) ? x : y; });
      },
      [as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved& saved,
                                       const Needs& needs) -> Grads {
        // 1 where the first is larger or one is NaN, ½ where the two tie.
        const auto winner = [&](const Tensor& x, const Tensor& y) {
          const Tensor share = zip("maximum", x, y, [](auto u, auto v) {
            return static_cast<decltype(u)>(u < v ? 0 : u == v ? 0.5 : 1);
          });
          return pass(dy, share, [](auto s) { return s; });
        };
        return {when(needs[0], as, [&] { return winner(saved[0], saved[1]); }),
                when(needs[1], bs, [&] { return winner(saved[1], saved[0]); })};
      },
      {.onnx = "Max"});
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return are_integers(a, b) ? one_of("minimum", a, b, smaller) : -maximum(-a, -b);
}

Tensor neg(const Tensor& x) {
  if (!is_float(x.dtype())) {
    return integers("neg", Tensor::zeros({}, x.dtype()), x,
                    [](auto u, auto v, auto* z) { return __builtin_sub_overflow(u, v, z); });
  }
  return apply(
      "neg", {x}, [](Inputs in, Saved&) { return map(in[0], [](auto v) { return -v; }); },
      [](const Tensor& dy, const Saved&, const Needs&) -> Grads { return {-dy}; }, {.onnx = "Neg"});
}

Tensor exp(const Tensor& x) {
  return unary_of_result(
      "exp", x, [](auto v) { return exact_exp(v); },
      [](const Tensor& dy, const Tensor& y) { return dy * y; }, {.onnx = "Exp"});
}

Tensor log(const Tensor& x) {
  return unary(
      "log", x, [](auto v) { return exact_log(v); },
      [](const Tensor& dy, const Tensor& v) { return dy / v; }, {.onnx = "Log"});
}

Tensor sqrt(const Tensor& x) {
  return unary_of_result(
      "sqrt", x, [](auto v) { return std::sqrt(v); },
      [](const Tensor& dy, const Tensor& y) { return dy / (2.0 * y); }, {.onnx = "Sqrt"});
}

Tensor tanh(const Tensor& x) {
  return unary_of_result(
      "tanh", x, [](auto v) { return fast_tanh(v); },
      [](const Tensor& dy, const Tensor& y) {
        return times_slope(
            "tanh_backward", dy, y,
            [](const Tensor& d, const Tensor& v) {
              return zip("tanh_backward", d, v, [](auto e, auto u) { return e * (1 - u * u); });
            },
            [](const Tensor& v) { return v * -2.0; });
      },
      {.onnx = "Tanh"});
}

Tensor softcap(const Tensor& x, double cap) {
  check(cap >= 0 && std::isfinite(cap), "[softcap] the cap must be finite and not negative, not {}",
        cap);
  return cap == 0 ? x : tanh(x * (1 / cap)) * cap;
}

Tensor sigmoid(const Tensor& x) {
  return unary_of_result(
      "sigmoid", x, [](auto v) { return fast_sigmoid(v); },
      [](const Tensor& dy, const Tensor& y) {
        return times_slope(
            "sigmoid_backward", dy, y,
            [](const Tensor& d, const Tensor& v) {
              return zip("sigmoid_backward", d, v,
                         [](auto e, auto u) { return e * (u * (1 - u)); });
            },
            [](const Tensor& v) { return 1.0 - v * 2.0; });
      },
      {.onnx = "Sigmoid"});
}

Tensor erf(const Tensor& x) {
  return unary(
      "erf", x, [](auto v) { return fast_erf(v); },
      [](const Tensor& dy, const Tensor& v) {
        return dy * (exp(-(v * v)) * (2 * std::numbers::inv_sqrtpi));
      },
      {.onnx = "Erf"});
}

// The slope follows from the result, so that x need not be kept.
Tensor relu(const Tensor& x) {
  return unary_of_result(
      "relu", x, [](auto v) { return v < 0 ? decltype(v){0} : v; },
      [](const Tensor& dy, const Tensor& y) {
        return pass(dy, y, [](auto v) { return !(v <= 0); });
      },
      {.onnx = "Relu"});
}

Tensor relu2(const Tensor& x) {
  return unary(
      "relu2", x, [](auto v) { return v < 0 ? decltype(v){0} : v * v; },
      [](const Tensor& dy, const Tensor& v) {
        return times_slope(
            "relu2_backward", dy, v,
            [](const Tensor& d, const Tensor& from) {
              return zip("relu2_backward", d, from,
                         [](auto e, auto u) { return u <= 0 ? decltype(u){0} : e * (u + u); });
            },
            // It has no gradient of its own, so it need not be recorded.
            [](const Tensor& from) {
              return map(from, [](auto u) { return static_cast<decltype(u)>(u <= 0 ? 0 : 2); });
            });
      },
      {.cheap = true, .onnx = [](OnnxCall& c) {
         const OnnxValue y = c("Relu", {c.in(0)});
         return c("Mul", {y, y});
       }});
}

Tensor abs(const Tensor& x) {
  if (!is_float(x.dtype())) {
    return integers("abs", x, Tensor::zeros({}, x.dtype()), [](auto u, auto v, auto* z) {
      return u < 0 ? __builtin_sub_overflow(v, u, z) : __builtin_add_overflow(u, v, z);
    });
  }
  return unary(
      "abs", x, [](auto v) { return std::abs(v); },
      [](const Tensor& dy, const Tensor& v) {
        // The sign has no gradient of its own, so it need not be recorded.
        return dy * map(v, [](auto e) { return static_cast<decltype(e)>((e > 0) - (e < 0)); });
      },
      {.onnx = "Abs"});
}

Tensor clamp(const Tensor& x, double low, double high) {
  check(low <= high, "[clamp] the lower limit {} is above the upper limit {}", low, high);
  if (!is_float(x.dtype())) return integer_clamp(x, low, high);
  check_holds("clamp", x.dtype(), low);
  check_holds("clamp", x.dtype(), high);
  return apply(
      "clamp", {x},
      [=](Inputs in, Saved& saved) {
        return map(saved.keep(in[0]), [=](auto v) {
          using T = decltype(v);
          return v < static_cast<T>(low) ? static_cast<T>(low)
                                         : (v > static_cast<T>(high) ? static_cast<T>(high) : v);
        });
      },
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {pass(dy, saved[0], [=](auto v) {
          using T = decltype(v);
          return v >= static_cast<T>(low) && v <= static_cast<T>(high);
        })};
      },
      {.onnx = [=](OnnxCall& c) {
        return c("Clip", {c.in(0), c.number(low), c.number(high)});
      }});
}

}  // namespace tapegrad
