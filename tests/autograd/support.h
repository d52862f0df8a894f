#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::testing {

inline Tensor normal(Rng& rng, const Shape& shape, DType dtype = DType::f64, double scale = 1) {
  Tensor t = Tensor::empty(shape, DType::f64);
  rng.normal(std::span(t.mutable_data<double>(), static_cast<std::size_t>(t.numel())), 0, scale);
  return t.to(dtype);
}
inline Tensor parameter(Rng& rng, const Shape& shape, DType dtype = DType::f64) {
  return normal(rng, shape, dtype).set_requires_grad();
}
inline Tensor vector(const std::vector<double>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
inline Tensor ids(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

inline std::vector<double> list(const Tensor& t) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(t.at(i));
  return values;
}

// Equal bits, shapes and dtypes; NaN equals NaN of the same bits.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.numel() == 0) return true;
  const auto bytes = [](const Tensor& t) -> const void* {
    switch (t.dtype()) {
      case DType::f32:
        return t.data<float>();
      case DType::f64:
        return t.data<double>();
      case DType::i32:
        return t.data<std::int32_t>();
      case DType::u8:
        return t.data<std::uint8_t>();
      case DType::i64:
        return t.data<std::int64_t>();
      case DType::boolean:
        return t.data<bool>();
    }
    return nullptr;
  };
  return std::memcmp(bytes(a), bytes(b), a.bytes()) == 0;
}

// "" if each element of a is within atol + rtol·|b| of b's, as numpy.allclose has it (NaN and
// infinities must agree); otherwise where it is not.
inline std::string difference(const Tensor& a, const Tensor& b, double rtol, double atol) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined() ? "" : "one is undefined";
  if (a.shape() != b.shape()) return fmt::format("shapes {} and {}", a.shape(), b.shape());
  if (a.dtype() != b.dtype()) return "dtypes differ";
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.at(i), y = b.at(i);
    const bool equal = x == y || (std::isnan(x) && std::isnan(y));
    if (!equal && !(std::abs(x - y) <= atol + rtol * std::abs(y))) {
      return fmt::format("element {} of {}: {:.9g} and {:.9g}", i, a.shape(), x, y);
    }
  }
  return "";
}

// Sets the number of threads, and back at the end.
class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace tapegrad::testing
