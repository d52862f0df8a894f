#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/autograd/kernels/internal/register_bytes.h"
#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/autograd/kernels/internal/stored_lanes.h"

namespace tapegrad {

// The two products of attention for one query of D channels and the keys and values of a cache,
// which are stored as E: what a step of generation spends most of its time on beside its weights.
// Each number is the sum that SmallProduct gives to a tile of queries of the widened keys, in the
// same order, and so has the same bits. Of 8 bits (std::int8_t), D must be a multiple of kBlock.
template <class T, class E = T>
struct PanelQuery {
  std::int64_t D;
  static constexpr std::int64_t kPanel = CachedPage::kPanel, kBlock = CachedPage::kBlock;
  static constexpr int kPanels = 4;  // met side by side, so that sums need not wait for each other
  using Stored = CachedPage::Stored<E>;

  // to[i·kPanel + j] = q·key j of panel i, for the first `count` panels. `next` are prefetched.
  void scores(const T* q, const Stored (&panels)[kPanels], const Stored (&next)[kPanels],
              std::int64_t count, T* to) const {
    switch (count) {
      case 1:
        return scores<1>(q, panels, next, to);
      case 2:
        return scores<2>(q, panels, next, to);
      case 3:
        return scores<3>(q, panels, next, to);
      default:
        return scores<kPanels>(q, panels, next, to);
    }
  }

  // to (D) = Σ weights[j]·value j over n values, added to what is there if `add`. The weights are
  // added to `total`, one after the other.
  void weighted_sum(const T* weights, const Stored& values, std::int64_t n, bool add, T* to,
                    T& total) const {
    std::int64_t c = 0;
    if (D >= kMost * kWidth) {
      columns<kMost, true>({weights, values, n, add, to}, 0, total);
      c = kMost * kWidth;
    } else {
      for (std::int64_t j = 0; j < n; ++j) total += weights[j];
    }
    for (; c + kMost * kWidth <= D; c += kMost * kWidth)
      columns<kMost, false>({weights, values, n, add, to}, c, total);
    for (; c + kWidth <= D; c += kWidth) columns<1, false>({weights, values, n, add, to}, c, total);
    if constexpr (!kScaled) {
      for (; c < D; ++c) column({weights, values, n, add, to}, c);
    }
  }

 private:
  static constexpr bool kScaled = std::is_same_v<E, std::int8_t>;
  static constexpr std::size_t kRegister = kRegisterBytes;
  static constexpr std::int64_t kWidth = kRegister / sizeof(T);
  static constexpr int kMost = kRegister == 64 ? 4 : 8;                  // registers of sums
  static constexpr std::int64_t kAhead = std::is_same_v<E, T> ? 8 : 32;  // rows
  typedef T Vector __attribute__((vector_size(kRegister)));
  typedef T Panel __attribute__((vector_size(kPanel * sizeof(T))));

  struct Sum {
    const T* weights;
    const Stored& values;
    std::int64_t n;
    bool add;
    T* to;
  };

  template <int N>
  void scores(const T* q, const Stored (&panels)[kPanels], const Stored (&next)[kPanels],
              T* to) const {
    constexpr std::int64_t kDepth = SmallProduct<T>::kDepth;
    for (std::int64_t begin = 0; begin < D; begin += kDepth) {
      const std::int64_t end = std::min(D, begin + kDepth);
      Panel sums[N] = {};
      for (std::int64_t c = begin; c < end;) {
        Panel scales[N];
        if constexpr (kScaled) {
          for (int i = 0; i < N; ++i)
            load_lanes<T>(panels[i].scales + c / kBlock * kPanel, scales[i]);
        }
        for (const std::int64_t last = kScaled ? c + kBlock : end; c < last; ++c) {
          for (int i = 0; i < N; ++i) {
            Panel keys;
            load_lanes<T>(panels[i].data + c * kPanel, keys);
            if constexpr (kScaled) keys *= scales[i];
            __builtin_prefetch(next[i].data + c * kPanel);
            sums[i] += keys * q[c];
          }
        }
      }
      for (int i = 0; i < N; ++i) {
        Panel before = {};
        if (begin > 0) std::memcpy(&before, to + i * kPanel, sizeof before);
        const Panel sum = begin > 0 ? before + sums[i] : sums[i];
        std::memcpy(to + i * kPanel, &sum, sizeof sum);
      }
    }
  }

  // Of the registers of sums from channel c on.
  template <int N, bool kTotals>
  void columns(const Sum& s, std::int64_t c, T& total) const {
    Vector sums[N] = {};
    const E* values = s.values.data + c;
    for (std::int64_t j = 0; j < s.n; ++j, values += s.values.row) {
      const T weight = s.weights[j];
      if constexpr (kTotals) total += weight;
      for (int i = 0; i < N; ++i) {
        Vector value;
        load_lanes<T>(values + i * kWidth, value);
        if constexpr (kScaled) {
          value *=
              widened(s.values.scales[j * s.values.scale_row + c / kBlock + i * kWidth / kBlock]);
        }
        __builtin_prefetch(values + kAhead * s.values.row + i * kWidth);
        sums[i] += value * weight;
      }
    }
    for (int i = 0; i < N; ++i) {
      Vector before = {};
      T* const to = s.to + c + i * kWidth;
      if (s.add) std::memcpy(&before, to, sizeof before);
      const Vector sum = s.add ? before + sums[i] : sums[i];
      std::memcpy(to, &sum, sizeof sum);
    }
  }

  // A channel by itself.
  void column(const Sum& s, std::int64_t c) const {
    T sum = 0;
    for (std::int64_t j = 0; j < s.n; ++j) {
      sum = multiply_add(s.weights[j], widened(s.values.data[j * s.values.row + c]), sum);
    }
    s.to[c] = s.add ? s.to[c] + sum : sum;
  }
};

}  // namespace tapegrad
