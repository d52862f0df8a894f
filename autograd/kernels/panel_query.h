#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/autograd/kernels/register_bytes.h"
#include "tapegrad/autograd/kernels/small_product.h"

namespace tapegrad {

// The two products of attention for one query and the keys and values of a cache: what a step of
// generation spends most of its time on beside its weights. Each number is the sum that
// SmallProduct gives to a tile of queries, in the same order, and so has the same bits.
template <class T>
struct PanelQuery {
  std::int64_t D;
  static constexpr std::int64_t kPanel = CachedPage::kPanel;
  static constexpr int kPanels = 4;  // met side by side, so that sums need not wait for each other

  // to[i·kPanel + j] = q·key j of panel i, for the first `count` panels. `next` are prefetched.
  void scores(const T* q, const T* const (&panels)[kPanels], const T* const (&next)[kPanels],
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

  // to (D) = Σ weights[j]·value j over n values, `row` elements apart, added to what is there if
  // `add`. The weights are added to `total`, one after the other.
  void weighted_sum(const T* weights, const T* values, std::int64_t row, std::int64_t n, bool add,
                    T* to, T& total) const {
    std::int64_t c = 0;
    if (D >= kMost * kWidth) {
      columns<kMost, true>({weights, values, row, n, add, to}, total);
      c = kMost * kWidth;
    } else {
      for (std::int64_t j = 0; j < n; ++j) total += weights[j];
    }
    for (; c + kMost * kWidth <= D; c += kMost * kWidth)
      columns<kMost, false>({weights, values + c, row, n, add, to + c}, total);
    for (; c + kWidth <= D; c += kWidth)
      columns<1, false>({weights, values + c, row, n, add, to + c}, total);
    SmallProduct<T>{.m = 1,
                    .n = D - c,
                    .k = n,
                    .a = weights,
                    .a_row = n,
                    .a_column = 1,
                    .b = values + c,
                    .ldb = row,
                    .c = to + c,
                    .ldc = D,
                    .add = add}();
  }

 private:
  static constexpr std::size_t kRegister = kRegisterBytes;
  static constexpr std::int64_t kWidth = kRegister / sizeof(T);
  static constexpr int kMost = kRegister == 64 ? 4 : 8;  // registers of sums
  static constexpr std::int64_t kAhead = 8;              // rows
  typedef T Vector __attribute__((vector_size(kRegister)));
  typedef T Panel __attribute__((vector_size(kPanel * sizeof(T))));

  struct Sum {
    const T *weights, *values;
    std::int64_t row, n;
    bool add;
    T* to;
  };

  template <int N>
  void scores(const T* q, const T* const (&panels)[kPanels], const T* const (&next)[kPanels],
              T* to) const {
    constexpr std::int64_t kDepth = SmallProduct<T>::kDepth;
    for (std::int64_t begin = 0; begin < D; begin += kDepth) {
      Panel sums[N] = {};
      for (std::int64_t c = begin; c < std::min(D, begin + kDepth); ++c) {
        for (int i = 0; i < N; ++i) {
          Panel keys;
          std::memcpy(&keys, panels[i] + c * kPanel, sizeof keys);
          __builtin_prefetch(next[i] + c * kPanel);
          sums[i] += keys * q[c];
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

  template <int N, bool kTotals>
  void columns(const Sum& s, T& total) const {
    Vector sums[N] = {};
    const T* values = s.values;
    for (std::int64_t j = 0; j < s.n; ++j, values += s.row) {
      const T weight = s.weights[j];
      if constexpr (kTotals) total += weight;
      for (int i = 0; i < N; ++i) {
        Vector value;
        std::memcpy(&value, values + i * kWidth, sizeof value);
        __builtin_prefetch(values + kAhead * s.row + i * kWidth);
        sums[i] += value * weight;
      }
    }
    for (int i = 0; i < N; ++i) {
      Vector before = {};
      if (s.add) std::memcpy(&before, s.to + i * kWidth, sizeof before);
      const Vector sum = s.add ? before + sums[i] : sums[i];
      std::memcpy(s.to + i * kWidth, &sum, sizeof sum);
    }
  }
};

}  // namespace tapegrad
