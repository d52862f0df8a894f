#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/kernels/internal/register_bytes.h"

namespace tapegrad {

// The two products of attention for one query of D channels and n keys: what a step of generation
// spends most of its time on beside its weights. Keys lie in rows of a cache, far apart, so that
// a prefetch names those that come next.
template <class T>
struct OneQuery {
  std::int64_t n, D;

  // to[j] = factor·(q·key j), for keys from `keys` on, `row` elements apart.
  void scores(const T* q, const T* keys, std::int64_t row, T factor, T* to) const {
    for (std::int64_t j = 0; j < n; ++j, keys += row) {
      prefetch(keys + kAhead * row);
      Vector sum = {};
      std::int64_t c = 0;
      for (; c + kWidth <= D; c += kWidth) sum += load(q + c) * load(keys + c);
      T rest = 0;
      for (; c < D; ++c) rest += q[c] * keys[c];
      to[j] = factor * (sum_of(sum) + rest);
    }
  }

  // to = factor·Σ weights[j]·value j.
  void weighted_sum(const T* weights, const T* values, std::int64_t row, T factor, T* to) const {
    std::int64_t c = 0;
    for (; c + kMost * kWidth <= D; c += kMost * kWidth)
      columns<kMost>(weights, values + c, row, factor, to + c);
    for (; c + kWidth <= D; c += kWidth) columns<1>(weights, values + c, row, factor, to + c);
    for (; c < D; ++c) {
      T sum = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += weights[j] * values[j * row + c];
      to[c] = factor * sum;
    }
  }

 private:
  static constexpr std::size_t kRegister = kRegisterBytes;
  static constexpr std::int64_t kWidth = kRegister / sizeof(T);
  static constexpr int kMost = 4;            // registers of sums
  static constexpr std::int64_t kAhead = 8;  // rows
  typedef T Vector __attribute__((vector_size(kRegister)));

  static Vector load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
  }
  void prefetch(const T* from) const {
    for (std::int64_t c = 0; c < D; c += 64 / static_cast<std::int64_t>(sizeof(T)))
      __builtin_prefetch(from + c);
  }
  static T sum_of(const Vector& v) {
    T lanes[kWidth];
    std::memcpy(lanes, &v, sizeof lanes);
    for (std::int64_t half = kWidth / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }

  // Even and odd keys have sums of their own, so that twice as many are on their way.
  template <int N>
  void columns(const T* weights, const T* values, std::int64_t row, T factor, T* to) const {
    Vector even[N] = {}, odd[N] = {};
    std::int64_t j = 0;
    for (; j + 2 <= n; j += 2, values += 2 * row) {
      prefetch(values + kAhead * row);
      prefetch(values + (kAhead + 1) * row);
      for (int i = 0; i < N; ++i) {
        even[i] += load(values + i * kWidth) * weights[j];
        odd[i] += load(values + row + i * kWidth) * weights[j + 1];
      }
    }
    for (int i = 0; i < N; ++i) {
      if (j < n) even[i] += load(values + i * kWidth) * weights[j];
      const Vector sum = (even[i] + odd[i]) * factor;
      std::memcpy(to + i * kWidth, &sum, sizeof sum);
    }
  }
};

}  // namespace tapegrad
