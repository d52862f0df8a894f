#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tapegrad {

// mantissa·2^exponent, with a mantissa of 0.5 to 1, of 0, or that is no finite number: a double
// whose range products do not leave. Products and sums are rounded as those of doubles.
struct Scaled {
  double mantissa = 0;
  std::int64_t exponent = 0;

  Scaled() = default;
  explicit Scaled(double value, std::int64_t power = 0) {
    int own = 0;
    mantissa = std::frexp(value, &own);
    if (std::isfinite(value)) exponent = own + power;
  }
  // Rounded to the range of doubles.
  explicit operator double() const {
    constexpr std::int64_t kBeyond = 5000;
    return std::ldexp(mantissa, static_cast<int>(std::clamp(exponent, -kBeyond, kBeyond)));
  }
};

inline Scaled operator*(const Scaled& a, const Scaled& b) {
  return Scaled(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

inline Scaled operator+(const Scaled& a, const Scaled& b) {
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  const Scaled &large = a.exponent < b.exponent ? b : a, &small = a.exponent < b.exponent ? a : b;
  constexpr std::int64_t kNothing = 200;  // farther apart, the smaller one is rounded away
  const std::int64_t apart = std::min(large.exponent - small.exponent, kNothing);
  return Scaled(large.mantissa + std::ldexp(small.mantissa, -static_cast<int>(apart)),
                large.exponent);
}

}  // namespace tapegrad
