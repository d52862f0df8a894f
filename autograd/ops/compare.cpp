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

}  // namespace tapegrad
