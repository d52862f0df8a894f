#include <cmath>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

template <class F>
Tensor compare(std::string_view name, const Tensor& a, const Tensor& b, const F& f) {
  if (is_float(promoted(name, a.dtype(), b.dtype()))) return zip<bool>(name, a, b, f);
  const BroadcastPlan plan = plan_broadcast(name, a.shape(), b.shape());
  const Tensor x = a.to(DType::i64), y = b.to(DType::i64);
  Tensor out = Tensor::empty(plan.shape, DType::boolean);
  zip_to(plan, x.data<std::int64_t>(), y.data<std::int64_t>(), out.mutable_data<bool>(), f);
  return out;
}

template <class F>
Tensor compare(std::string_view name, const Tensor& a, double b, const F& f) {
  if (is_float(a.dtype())) return compare(name, a, scalar_like(a, b), f);
  // A fraction lies between the same integers after they were rounded to f64.
  const bool is_whole = b == std::trunc(b) && std::abs(b) < 0x1p63;
  if (!is_whole) return compare(name, a.to(DType::f64), Tensor::scalar(b, DType::f64), f);
  return compare(name, a, Tensor::scalar(b, DType::i64), f);
}

constexpr auto equal = [](auto x, auto y) { return x == y; };
constexpr auto unequal = [](auto x, auto y) { return x != y; };
constexpr auto less = [](auto x, auto y) { return x < y; };
constexpr auto at_most = [](auto x, auto y) { return x <= y; };
constexpr auto greater = [](auto x, auto y) { return x > y; };
constexpr auto at_least = [](auto x, auto y) { return x >= y; };

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", a, b, equal); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", a, b, unequal); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", a, b, less); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", a, b, at_most); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", a, b, greater); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", a, b, at_least); }
Tensor eq(const Tensor& a, double b) { return compare("eq", a, b, equal); }
Tensor ne(const Tensor& a, double b) { return compare("ne", a, b, unequal); }
Tensor lt(const Tensor& a, double b) { return compare("lt", a, b, less); }
Tensor le(const Tensor& a, double b) { return compare("le", a, b, at_most); }
Tensor gt(const Tensor& a, double b) { return compare("gt", a, b, greater); }
Tensor ge(const Tensor& a, double b) { return compare("ge", a, b, at_least); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return compare("logical_and", a, b, [](auto x, auto y) { return x != 0 && y != 0; });
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  return compare("logical_or", a, b, [](auto x, auto y) { return x != 0 || y != 0; });
}

Tensor logical_not(const Tensor& x) { return eq(x, 0); }

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const Tensor close = compare("allclose", a, b, [=](double x, double y) {
    return x == y || (equal_nan && std::isnan(x) && std::isnan(y)) ||
           (std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y));
  });
  for (const std::uint8_t each : close.values<std::uint8_t>()) {
    if (each == 0) return false;
  }
  return true;
}

bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return tapegrad::allclose(*this, other, rtol, atol, equal_nan);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check(is_mask(condition.dtype()), "[where] the condition must be bool or u8, not {}",
        name_of(condition.dtype()));
  const Shape shape =
      broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  const DType dtype = promoted("where", a.dtype(), b.dtype());
  if (a.dtype() != dtype) return where(condition, a.to(dtype), b);
  if (b.dtype() != dtype) return where(condition, a, b.to(dtype));
  // A copy, so that the caller may change the condition.
  const Tensor choice = broadcast_to(condition.clone(), shape);
  return apply(
      "where", {broadcast_to(a, shape), broadcast_to(b, shape)},
      [choice](Inputs in, Saved&) {
        Tensor out = Tensor::empty(in[0].shape(), in[0].dtype());
        dispatch_all(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const auto* c = choice.data<std::uint8_t>();
          const T *x = in[0].data<T>(), *y = in[1].data<T>();
          T* to = out.mutable_data<T>();
          parallel_for(out.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] = c[i] != 0 ? x[i] : y[i];
          });
        });
        return out;
      },
      [choice](const Tensor& dy, const Saved&, const Needs& needs) -> Grads {
        const Tensor zero = Tensor::scalar(0, dy.dtype());
        return {needs[0] ? where(choice, dy, zero) : Tensor(),
                needs[1] ? where(choice, zero, dy) : Tensor()};
      },
      // ONNX's op broadcasts: a number to fill in is not stored for each element.
      {.onnx = [condition, version = condition.version(), a, b](OnnxCall& c) {
        check(condition.version() == version,
              "[where] the condition was changed in place afterwards, which a graph of ONNX cannot "
              "say: clone it before changing it");
        const OnnxValue yes = c.value(a), no = c.value(b);
        // Rows of padding differ from others in their gradient alone.
        if (yes == no && a.shape() == c.tensors[0].shape()) return yes;
        return c("Where", {c.cast(c.value(condition), DType::boolean), yes, no});
      }});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check(broadcast_shapes("masked_fill", x.shape(), mask.shape()) == x.shape(),
        "[masked_fill] mask {} does not broadcast to x {}", mask.shape(), x.shape());
  check_holds("masked_fill", x.dtype(), value);
  return where(mask, Tensor::scalar(value, x.dtype()), x);
}

}  // namespace tapegrad
