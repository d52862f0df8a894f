#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

namespace tapegrad {

// eˣ = 2ⁿ·(1 + m), for |x| < 89. Range reduction to [−½ln2, ½ln2] and the polynomial are those of
// Cephes' expf (S. Moshier).
struct ExpParts {
  float n, m;
};
inline ExpParts exp_parts(float x) {
  // Rounds to the nearest whole number, as std::nearbyint, which is a call on some processors.
  constexpr float kRound = 12582912.0F;  // 1.5·2²³, beyond which floats have no fraction
  const float n = (x * 1.44269504088896341F + kRound) - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return {n, p * (r * r) + r};
}

// 2ⁿ for whole n from −126; 2¹²⁷ for all n above 127 and for NaN.
inline float power_of_two(float n) {
  const float limited = n < 127.0F ? n : 127.0F;
  return std::bit_cast<float>((static_cast<std::int32_t>(limited) + 127) << 23);
}

// eˣ without a branch or a call, so that loops over it become vector code. Where the result is
// normal, within 1 ulp of the correctly rounded value (tested); 0 below −87.3, ∞ above 88.7.
inline float fast_exp(float x) {
  const auto [n, m] = exp_parts(x < -87.3F ? -87.3F : (x > 88.72283F ? 88.72283F : x));
  // 2¹²⁸ is no float, so its last factor of 2 goes elsewhere.
  const float fraction = m + 1.0F, mantissa = n > 127.0F ? 2.0F * fraction : fraction;
  const float y = x < -87.3F ? 0.0F : mantissa * power_of_two(n);
  return x > 88.72283F ? std::numeric_limits<float>::infinity() : y;
}
inline double fast_exp(double x) { return std::exp(x); }

// eˣ within 0.51 ulp (tested), and denormal where f32 is, for twice the time: in double, where
// roundings disappear and the last factor 2ⁿ always fits. The series is cut off at 2e-10 of eˣ.
// Denormals are slow, so this is not for softmax, where they would stand beside a 1.
inline float exact_exp(float x) {
  const auto limited = static_cast<double>(x < -110.0F ? -110.0F : (x > 90.0F ? 90.0F : x));
  constexpr double kRound = 0x1.8p52;  // beyond it, the last bits count ones
  const double shifted = limited * std::numbers::log2e + kRound, n = shifted - kRound;
  const double r = limited - n * std::numbers::ln2;
  double p = 1.0 / 40320;
  for (const double c : {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) {
    p = p * r + c;
  }
  const auto exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return static_cast<float>(p * std::bit_cast<double>(exponent));
}
inline double exact_exp(double x) { return std::exp(x); }

// The polynomial in x with these coefficients, the highest power first.
template <std::size_t N>
float polynomial(float x, const float (&coefficients)[N]) {
  float p = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) p = p * x + coefficients[i];
  return p;
}

// erf(x) without a branch or a call, within 2 ulp of the correctly rounded value (tested). Both
// polynomials are minimax fits (Remez): on [0, 1.125] of erf(x)/x − 1 as a function of x², to 6e-9
// of erf(x); on [1.125, 4] of the fourth root of 1 − erf(x), which is nearly straight, to 9e-9 in
// erf(x).
inline float fast_erf(float x) {
  const float size = std::abs(x);
  const float a = size > 4.0F ? 4.0F : size;  // a NaN stays
  const float low =
      polynomial(a * a, {7.02194011e-5F, -7.74854794e-4F, 5.15750330e-3F, -2.68371068e-2F,
                         1.12831771e-1F, -3.76125902e-1F, 1.28379166e-1F});
  const float root =
      polynomial(a - 2.5625F, {-1.79498180e-4F, 1.44615733e-5F, 2.76074698e-3F, -5.64146973e-3F,
                               -1.38349878e-2F, 9.11791772e-2F, -1.78507462e-1F, 1.30516455e-1F});
  const float y = a < 1.125F ? a + a * low : 1.0F - (root * root) * (root * root);
  return std::copysign(y, x);
}
inline double fast_erf(double x) { return std::erf(x); }

// 1/(1 + e⁻ˣ) without a branch or a call, within 1.8 ulp (tested). With e⁻ˣ = 2ⁿ·(1 + m), what is
// lost in the sum 1 + e⁻ˣ is made up for to first order. 0 below −88.7.
inline float fast_sigmoid(float x) {
  const float y = -x;
  const auto [n, m] = exp_parts(y < -87.3F ? -87.3F : (y > 88.72283F ? 88.72283F : y));
  // All terms are halved, since 2¹²⁸ is no float.
  const float power = power_of_two(n - 1.0F), rest = m * power;
  const float base = power + 0.5F, sum = base + rest, lost = (base - sum) + rest;
  const float sigmoid = 0.5F / sum;
  return y > 88.72283F ? 0.0F : sigmoid - 2.0F * sigmoid * sigmoid * lost;
}
inline double fast_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// tanh(x) without a branch or a call, within 1 ulp (tested). Up to 1 it is x + x³·P(x²), with P a
// minimax fit to 5e-9 of tanh(x); beyond, 1 − 2/(e²ˣ + 1), in which the errors of the exponential
// shrink.
inline float fast_tanh(float x) {
  const float a = std::abs(x), square = a * a;
  const float p =
      polynomial(square, {-3.58451449e-4F, 2.30136258e-3F, -7.94610382e-3F, 2.14866549e-2F,
                          -5.38798012e-2F, 1.33323446e-1F, -3.33332956e-1F});
  const auto [n, m] = exp_parts(a > 10.0F ? 20.0F : 2.0F * a);  // a NaN stays
  const float half = power_of_two(n - 1.0F);
  const float large = 1.0F - 1.0F / (m * half + (half + 0.5F));
  return std::copysign(a < 1.0F ? a + a * (square * p) : large, x);
}
inline double fast_tanh(double x) { return std::tanh(x); }

// most·tanh(x / most) for n numbers. `slopes` gets how much each changes with what it was, if there
// is room for it.
template <class T>
void soft_cap(std::int64_t n, double most, T* __restrict x, T* __restrict slopes = nullptr) {
  const T limit = static_cast<T>(most), inverse = static_cast<T>(1 / most);
  for (std::int64_t i = 0; i < n; ++i) x[i] = fast_tanh(x[i] * inverse);
  for (std::int64_t i = 0; slopes != nullptr && i < n; ++i) slopes[i] = 1 - x[i] * x[i];
  for (std::int64_t i = 0; i < n; ++i) x[i] *= limit;
}

// log(x) without a branch or a call, within 0.51 ulp of the true value (tested). In double, where
// denormals of f32 are normal and roundings disappear, x = 2ⁿ·m with m in [√½, √2), and
// log m = 2·artanh s with s = (m − 1)/(m + 1), whose series is cut off at 5e-11 of it.
inline float exact_log(float x) {
  constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD, kOne = 0x3FF0000000000000;
  constexpr std::uint64_t kFraction = 0x000FFFFFFFFFFFFF;
  constexpr std::uint64_t kTwo52 = 0x4330000000000000;  // whose last bits count ones
  const std::uint64_t bits =
      std::bit_cast<std::uint64_t>(static_cast<double>(x)) + (kOne - kRootHalf);
  const double n = std::bit_cast<double>((bits >> 52) | kTwo52) - (0x1p52 + 1023);
  const double m = std::bit_cast<double>((bits & kFraction) + kRootHalf);
  const double s = (m - 1) / (m + 1), z = s * s;
  const double series =
      1 + z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11)))));
  const float y = static_cast<float>(n * std::numbers::ln2 + 2 * s * series);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float edge = x == 0 ? -kInf : (x < 0 ? std::numeric_limits<float>::quiet_NaN() : x);
  return x > 0 && x < kInf ? y : edge;
}
inline double exact_log(double x) { return std::log(x); }

// Reductions along a row go in interleaved lanes: an order that vector code can follow, and that is
// the same on every machine. So many lanes fill four registers of AVX2, or two of AVX-512, whose
// additions need not wait for each other.
inline constexpr std::int64_t kLanes = 32;

// Combines the lanes in pairs: the upper half with the lower half, and so on.
template <class T, class F>
T join_lanes(T (&lanes)[kLanes], const F& join) {
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t k = 0; k < half; ++k) lanes[k] = join(lanes[k], lanes[k + half]);
  }
  return lanes[0];
}

// Σ term(i) over [0, n).
template <class T, class F>
T sum_row(std::int64_t n, const F& term) {
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  }
  for (std::int64_t k = 0; k < n - i; ++k) lanes[k] += term(i + k);
  return join_lanes(lanes, [](T a, T b) { return a + b; });
}

// The largest element, −∞ of none; NaNs are passed over.
template <class T>
T max_row(const T* x, std::int64_t n) {
  const auto larger = [](T a, T b) { return b > a ? b : a; };
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = larger(lanes[k], x[i + k]);
  }
  for (std::int64_t k = 0; k < n - i; ++k) lanes[k] = larger(lanes[k], x[i + k]);
  return join_lanes(lanes, larger);
}

// out = softmax(x); may be in place. A row of all −∞ gives NaN, and so does one with +∞.
template <class T>
void softmax_row(const T* x, T* out, std::int64_t n) {
  const T top = max_row(x, n);
  for (std::int64_t i = 0; i < n; ++i) out[i] = fast_exp(x[i] - top);
  const T total = sum_row<T>(n, [=](std::int64_t i) { return out[i]; });
  const T scale = 1 / total;
  for (std::int64_t i = 0; i < n; ++i) out[i] *= scale;
}

// Σ eˣ = total·e^top. Softmax and its logarithm are made of the two, as e^(x − top)/total and
// (x − top) − log total: first the difference, which is exact where it matters. x − log Σ eˣ would
// lose what the rounding of so large a number loses. The total of a row that has +∞ or NaN, or
// that is all −∞, is NaN.
template <class T>
struct ExpSum {
  T top, total;
};
template <class T>
ExpSum<T> exp_sum_row(const T* x, std::int64_t n) {
  const T top = max_row(x, n);
  return {top, sum_row<T>(n, [=](std::int64_t i) { return fast_exp(x[i] - top); })};
}

// log Σ eˣ; −∞ for a row of all −∞ and for an empty one. NaN if any element is NaN.
template <class T>
T log_sum_exp_row(const T* x, std::int64_t n) {
  const T top = max_row(x, n);
  const T shift = std::isinf(top) ? T{0} : top;
  const T total = sum_row<T>(n, [=](std::int64_t i) { return fast_exp(x[i] - shift); });
  // In double, so that the sum of the two is rounded once.
  const double y = static_cast<double>(shift) + std::log(static_cast<double>(total));
  return std::isinf(top) && !std::isnan(total) ? top : static_cast<T>(y);
}

}  // namespace tapegrad
