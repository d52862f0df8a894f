#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "tapegrad/autograd/kernels/internal/attention_tiles.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"

namespace tapegrad {

// Attention's numbers for a strip of queries, key by key: a row of scratch has a number for
// each of the strip's queries, which are one vector.
template <class T>
struct AttentionStrip {
  static constexpr std::int64_t kStrip = AttentionTiles::kStrip;
  // From one row of scratch to the next. It is no power of two, so that the rows of a strip do not
  // compete for the same few places in the cache.
  static constexpr std::int64_t kStride = AttentionTiles::kQueryTile + kStrip;
  typedef T Vector __attribute__((vector_size(kStrip * sizeof(T))));

  // By reference: how a vector is returned depends on the processor, of which compilers warn.
  static void load(const T* from, Vector& v) { std::memcpy(&v, from, sizeof(v)); }
  static void store(const Vector& v, T* to) { std::memcpy(to, &v, sizeof(v)); }

  // The largest score of each query, of which `sink` is one; 0 if all are −∞.
  static void largest(const T* scores, std::int64_t keys, T sink, T (&top)[kStrip]) {
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    Vector most = Vector{} + sink, row;
    for (std::int64_t j = 0; j < keys; ++j) {
      load(scores + j * kStride, row);
      most = row > most ? row : most;
    }
    store(most == kNone ? Vector{} : most, top);
  }

  // Σ P·dP / Σ P of each query, over its keys and a P without dP, `sunk`; a minus of P does not
  // count.
  static void means(const T* p, const T* dp, std::int64_t keys, const T (&sunk)[kStrip],
                    T (&mean)[kStrip]) {
    Vector total, sum{}, row, drow;
    load(sunk, total);
    for (std::int64_t j = 0; j < keys; ++j) {
      load(p + j * kStride, row);
      load(dp + j * kStride, drow);
      row = row < 0 ? -row : row;
      total += row;
      sum += row * drow;
    }
    store(total == 0 ? Vector{} : sum / total, mean);
  }

  // Caps the scores of a strip; `slopes` as in soft_cap.
  static void cap(std::int64_t keys, double most, T* scores, T* slopes) {
    for (std::int64_t j = 0; j < keys; ++j) {
      soft_cap(kStrip, most, scores + j * kStride,
               slopes == nullptr ? nullptr : slopes + j * kStride);
    }
  }
};

}  // namespace tapegrad
