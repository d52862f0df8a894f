#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tapegrad {

// eˣ without a branch or a call, so that loops over it become vector code. Within 1 ulp of the true
// value (tested) where the result is normal; 0 below −87.3, ∞ above 88.7. Range reduction to
// [−½ln2, ½ln2] and the polynomial are those of Cephes' expf (S. Moshier).
inline float fast_exp(float x) {
  const float limited = x < -87.3F ? -87.3F : (x > 88.72283F ? 88.72283F : x);
  const float rounded = std::nearbyint(limited * 1.44269504088896341F);
  const float r = (limited - rounded * 0.693359375F) + rounded * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float fraction = p * (r * r) + r + 1.0F;
  // The exponent field of 2ⁿ, n <= 127; 2¹²⁸ has none, so its last factor of 2 goes elsewhere. A
  // NaN's n is 127, but then the fraction is NaN as well.
  const float n = rounded < 127.0F ? rounded : 127.0F;
  const float mantissa = rounded > 127.0F ? 2.0F * fraction : fraction;
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  const float y = x < -87.3F ? 0.0F : mantissa * power;
  return x > 88.72283F ? std::numeric_limits<float>::infinity() : y;
}
inline double fast_exp(double x) { return std::exp(x); }

// Reductions along a row go in eight interleaved lanes: an order that vector code can follow, and
// that is the same on every machine.
inline constexpr std::int64_t kLanes = 8;

template <class T>
T sum_lanes(const T (&lanes)[kLanes]) {
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// Σ term(i) over [0, n).
template <class T, class F>
T sum_row(std::int64_t n, const F& term) {
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  }
  for (; i < n; ++i) lanes[0] += term(i);
  return sum_lanes(lanes);
}

// The largest element, −∞ of none; NaNs are passed over.
template <class T>
T max_row(const T* x, std::int64_t n) {
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

// out = softmax(x); may be in place. A row of all −∞ gives NaN.
template <class T>
void softmax_row(const T* x, T* out, std::int64_t n) {
  const T top = max_row(x, n);
  for (std::int64_t i = 0; i < n; ++i) out[i] = fast_exp(x[i] - top);
  const T total = sum_row<T>(n, [=](std::int64_t i) { return out[i]; });
  const T scale = 1 / total;
  for (std::int64_t i = 0; i < n; ++i) out[i] *= scale;
}

// log Σ eˣ; −∞ for a row of all −∞ and for an empty one. NaN if any element is NaN.
template <class T>
T log_sum_exp_row(const T* x, std::int64_t n) {
  const T top = max_row(x, n);
  const T shift = std::isinf(top) ? T{0} : top;
  const T total = sum_row<T>(n, [=](std::int64_t i) { return fast_exp(x[i] - shift); });
  return std::isinf(top) && !std::isnan(total) ? top : shift + std::log(total);
}

}  // namespace tapegrad
