#pragma once

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/kernels/internal/attention_kernel.h"

namespace tapegrad {

template <class T>
inline void AttentionKernel<T>::backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq,
                                         HeadRows<T> dk, HeadRows<T> dv, T* dsinks) const {
  parallel_for(tiles.size.B * tiles.size.H, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t keys = tiles.most_keys();
    const bool capped = cap > 0;
    Tensor scratch =
        Tensor::empty({(capped ? 3 : 2) * keys + tiles.size.D, kStride}, dtype_of<T>());
    T* p = scratch.mutable_data<T>();
    T* da = p + keys * kStride;
    T* turned = da + keys * kStride;
    T* slopes = capped ? turned + tiles.size.D * kStride : nullptr;
    for (std::int64_t head = begin; head < end; ++head) {
      for (std::int64_t n = tiles.tile_count(); n-- > 0;) {
        const Tile t = tiles.tile(head, n);
        backward_tile(t, dout, stats, dq, dk, dv, dsinks, p, da, turned, slopes);
        count_small_products(5 * tiles.pairs(t) * tiles.size.D);
      }
    }
  });
}

template <class T>
inline void AttentionKernel<T>::sum_over_keys(const Tile& t, std::int64_t s, const T* weights,
                                              const HeadRows<const T>& x, T factor,
                                              const HeadRows<T>& to) const {
  const std::int64_t from = tiles.keys_from(t, s);
  SmallProduct<T>{.m = std::min(kStrip, t.rows - s),
                  .n = tiles.size.D,
                  .k = tiles.keys_of(t, s) - from,
                  .a = weights,
                  .a_row = 1,
                  .a_column = kStride,
                  .b = at_key(x, t, from),
                  .ldb = x.row,
                  .c = at(to, t, t.first + s),
                  .ldc = to.row,
                  .alpha = factor}();
}

template <class T>
inline void AttentionKernel<T>::sum_over_queries(const Tile& t, const T* weights,
                                                 const HeadRows<const T>& x, T factor,
                                                 const HeadRows<T>& to) const {
  const bool adds = t.first + t.rows < tiles.size.Tq || !tiles.meets_all();
  tiles.for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s, std::int64_t last) {
    SmallProduct<T>{.m = end - begin,
                    .n = tiles.size.D,
                    .k = std::min(t.rows, last) - s,
                    .a = weights + (begin - t.from) * kStride + s,
                    .a_row = kStride,
                    .a_column = 1,
                    .b = at(x, t, t.first + s),
                    .ldb = x.row,
                    .c = at(to, t, begin),
                    .ldc = to.row,
                    .alpha = factor,
                    .add = adds}();
  });
}

template <class T>
inline void AttentionKernel<T>::backward_tile(const Tile& t, const HeadRows<const T>& dout,
                                              const T* stats, const HeadRows<T>& dq,
                                              const HeadRows<T>& dk, const HeadRows<T>& dv,
                                              T* dsinks, T* p, T* da, T* turned, T* slopes) const {
  turn(q, t, static_cast<T>(scale), turned);
  products_of_keys(t, k, turned, p);
  turn(dout, t, 1, turned);
  products_of_keys(t, v, turned, da);
  for (std::int64_t s = 0; s < t.rows; s += kStrip) {
    T* const da_strip = strip(t, s, da);
    backward_strip(t, s, stats, strip(t, s, p), da_strip,
                   slopes == nullptr ? nullptr : strip(t, s, slopes), dsinks);
    sum_over_keys(t, s, da_strip, k, static_cast<T>(scale), dq);
  }
  sum_over_queries(t, p, dout, 1, dv);
  sum_over_queries(t, da, q, static_cast<T>(scale), dk);
}

template <class T>
inline void AttentionKernel<T>::backward_strip(const Tile& t, std::int64_t s, const T* stats, T* p,
                                               T* da, T* slopes, T* dsinks) const {
  const std::int64_t keys = tiles.keys_of(t, s) - tiles.keys_from(t, s);
  if (cap > 0) Strip::cap(keys, cap, p, slopes);
  hide(t, s, p);
  T shift[kStrip] = {}, share[kStrip] = {}, sunk[kStrip] = {}, mean[kStrip];
  for (std::int64_t i = 0; i < std::min(kStrip, t.rows - s); ++i) {
    shift[i] = stats[2 * tiles.row_index(t, s + i)];
    share[i] = 1 / stats[2 * tiles.row_index(t, s + i) + 1];
    sunk[i] = fast_exp(sink(t) - shift[i]) * share[i];
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    T* row = p + j * kStride;
    for (std::int64_t i = 0; i < kStrip; ++i) row[i] = fast_exp(row[i] - shift[i]) * share[i];
  }
  // Dropped elements get a minus, until dS is made of it.
  for_factors(t, s, [&](std::int64_t j, const T* factors) {
    T *const row = p + j * kStride, *const drow = da + j * kStride;
    typename Strip::Vector weights, dweights, kept;
    Strip::load(row, weights);
    Strip::load(drow, dweights);
    Strip::load(factors, kept);
    Strip::store(kept > 0 ? weights : -weights, row);
    Strip::store(dweights * kept, drow);
  });
  Strip::means(p, da, keys, sunk, mean);
  for (std::int64_t i = 0; sinks != nullptr && i < std::min(kStrip, t.rows - s); ++i) {
    dsinks[tiles.row_index(t, s + i)] = -sunk[i] * mean[i];
  }
  const T kept = keep.drops() ? static_cast<T>(keep.scale(dtype_of<T>())) : T{1};
  for (std::int64_t j = 0; j < keys; ++j) {
    T* __restrict row = p + j * kStride, * __restrict drow = da + j * kStride;
    for (std::int64_t i = 0; i < kStrip; ++i) {
      drow[i] = std::abs(row[i]) * (drow[i] - mean[i]);
      row[i] = row[i] < 0 ? T{0} : row[i] * kept;
    }
  }
  for (std::int64_t j = 0; slopes != nullptr && j < keys; ++j) {
    T* __restrict drow = da + j * kStride;
    const T* __restrict slope = slopes + j * kStride;
    for (std::int64_t i = 0; i < kStrip; ++i) drow[i] *= slope[i];
  }
}

}  // namespace tapegrad
