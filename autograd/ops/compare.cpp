#include <cmath>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// Integers as f64, which holds all of them.
Tensor as_float(const Tensor& x) { return is_float(x.dtype()) ? x : x.to(DType::f64); }

template <class F>
Tensor compare(std::string_view name, const Tensor& a, const Tensor& b, const F& f) {
  check(a.dtype() == b.dtype(), "[{}] dtypes differ: {} and {}", name, name_of(a.dtype()),
        name_of(b.dtype()));
  return zip<std::uint8_t>(name, as_float(a), as_float(b), f);
}

template <class F>
Tensor compare(std::string_view name, const Tensor& a, double b, const F& f) {
  const Tensor x = as_float(a);
  return compare(name, x, Tensor::scalar(b, x.dtype()), f);
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

}  // namespace tapegrad
