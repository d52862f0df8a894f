#pragma once

// Functions of floats that are computed in double and rounded once, so that they are within 0.51
// ulp of the true value (tested), denormal results included. None has a branch or a call: loops
// over them become vector code. The overloads for double call the system's functions.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tapegrad {
namespace wide {

// Adding this rounds a double below 2⁵¹ to a whole number, which is then in its last bits.
inline constexpr double kRound = 0x1.8p52;

// The polynomial in x with these coefficients, the highest power first.
template <std::size_t N>
double polynomial(double x, const double (&coefficients)[N]) {
  double p = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) p = p * x + coefficients[i];
  return p;
}

// eˣ = scale·(1 + rest) for |x| <= 110, by the series of the exponential on [−½ln2, ½ln2].
struct Exp {
  double scale, rest;
};
inline Exp exp_parts(double x) {
  const double shifted = x * 1.4426950408889634 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  const double p = polynomial(r, {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                  1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0});
  const auto bits = std::bit_cast<std::uint64_t>(shifted) + 1023;
  return {std::bit_cast<double>(bits << 52), r * p};
}

// log(1 + x) for x > −1: log u = n·ln2 + 2·artanh(s) with u = 2ⁿ·m, s = (m − 1)/(m + 1), and the
// series of log(1 + x) near 0, where u has lost digits of x.
inline double log1p(double x) {
  const double u = 1 + x;
  const auto bits = std::bit_cast<std::uint64_t>(u);
  const double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  const double power = std::bit_cast<double>((bits >> 52) | 0x4330000000000000U) - (0x1p52 + 1023);
  const bool upper = mantissa > 1.4142135623730951;
  const double m = upper ? 0.5 * mantissa : mantissa, n = upper ? power + 1 : power;
  const double s = (m - 1) / (m + 1), z = s * s;
  const double series =
      polynomial(z, {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  const double large = n * 0.6931471805599453 + 2 * s * series;
  const double small = x * (1 + x * (-0.5 + x * (1.0 / 3)));
  return std::abs(x) < 0x1p-12 ? small : large;
}

// sin(x + quarter·π/2) for |x| <= 2²⁰: x less the nearest multiple of π/2, which three parts of π/2
// give exactly enough, and the series of sine or cosine on [−π/4, π/4].
inline double sin_of_quarter(double x, std::uint64_t quarter) {
  const double shifted = x * 0.6366197723675814 + kRound;
  const double n = shifted - kRound;
  const double r = ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
  const double z = r * r;
  const double sine =
      r + r * z * polynomial(z, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
  const double cosine = 1 + z * polynomial(z, {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                                               -1.0 / 720, 1.0 / 24, -0.5});
  const std::uint64_t turn = std::bit_cast<std::uint64_t>(shifted) + quarter;
  const double y = (turn & 1U) != 0 ? cosine : sine;
  return (turn & 2U) != 0 ? -y : y;
}

inline float rounded(double y) {
  return y >= 0x1.ffffffp127 ? std::numeric_limits<float>::infinity() : static_cast<float>(y);
}

}  // namespace wide

inline float wide_log1p(float x) {
  const float y = static_cast<float>(wide::log1p(static_cast<double>(x)));
  const float edge = x == -1 ? -std::numeric_limits<float>::infinity() : x;
  return x > -1 && x <= std::numeric_limits<float>::max() ? y
         : x < -1                                         ? std::numeric_limits<float>::quiet_NaN()
                                                          : edge;
}
inline double wide_log1p(double x) { return std::log1p(x); }

inline float wide_expm1(float x) {
  const double limited = x < -110 ? -110.0 : (x > 110 ? 110.0 : static_cast<double>(x));
  const auto [scale, rest] = wide::exp_parts(limited);
  return x == 0 ? x : wide::rounded(scale * rest + (scale - 1));
}
inline double wide_expm1(double x) { return std::expm1(x); }

// log(1 + eˣ).
inline float wide_softplus(float x) {
  const double size = std::abs(static_cast<double>(x));
  const auto [scale, rest] = wide::exp_parts(size > 110 ? -110.0 : -size);
  const double y = wide::log1p(scale * (1 + rest)) + (x > 0 ? size : 0);
  return x == x ? static_cast<float>(y) : x;
}
inline double wide_softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
}

// For |x| <= kWideSines; larger arguments need the system's functions.
inline constexpr float kWideSines = 0x1p20F;
inline float wide_sin(float x) {
  const float y = static_cast<float>(wide::sin_of_quarter(static_cast<double>(x), 0));
  return x == 0 ? x : y;
}
inline float wide_cos(float x) {
  return static_cast<float>(wide::sin_of_quarter(static_cast<double>(x), 1));
}

}  // namespace tapegrad
