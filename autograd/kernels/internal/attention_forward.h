#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>

#include "tapegrad/autograd/kernels/internal/attention_kernel.h"
#include "tapegrad/autograd/kernels/internal/one_query.h"
#include "tapegrad/autograd/kernels/internal/panel_query.h"

namespace tapegrad {

template <class T>
inline void AttentionKernel<T>::forward(HeadRows<T> out, T* stats) const {
  const std::int64_t count = tiles.tile_count();
  parallel_for(tiles.size.B * tiles.size.H * count, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t stride = tiles.size.Tq == 1 ? 1 : kStride;
    Tensor scratch = Tensor::empty({tiles.most_keys() + tiles.size.D, stride}, dtype_of<T>());
    T* weights = scratch.mutable_data<T>();
    T* turned = weights + tiles.most_keys() * stride;
    const Tensor read = spare();
    T* const spare = read.defined() ? const_cast<T*>(read.data<T>()) : nullptr;
    for (std::int64_t i = begin; i < end; ++i) {
      const Tile t = tiles.tile(i / count, i % count);
      if (tiles.size.Tq == 1) {
        cached.empty() ? forward_query(t, weights, out, stats)
                       : forward_cached_query(t, spare, out);
        continue;
      }
      turn(q, t, static_cast<T>(scale), turned);
      cached.empty() ? products_of_keys(t, k, turned, weights)
                     : products_of_panels(t, turned, weights, spare);
      for (std::int64_t s = 0; s < t.rows; s += kStrip) {
        forward_strip(t, s, strip(t, s, weights), out, stats, spare);
      }
      count_small_products(2 * tiles.pairs(t) * tiles.size.D);
    }
  });
}

template <class T>
inline void AttentionKernel<T>::sum_of_values(const Tile& t, std::int64_t s, const T* weights,
                                              const HeadRows<T>& out, T* spare) const {
  const std::int64_t from = tiles.keys_from(t, s), to = tiles.keys_of(t, s);
  std::int64_t begin = from;
  do {
    const std::int64_t end = std::min(to, (begin / kPage + 1) * kPage);
    const CachedPage::Rows<T> rows = values(t, begin, end - begin, spare);
    SmallProduct<T>{.m = std::min(kStrip, t.rows - s),
                    .n = tiles.size.D,
                    .k = end - begin,
                    .a = weights + (begin - from) * kStride,
                    .a_row = 1,
                    .a_column = kStride,
                    .b = rows.data,
                    .ldb = rows.row,
                    .c = at(out, t, t.first + s),
                    .ldc = out.row,
                    .add = begin > from}();
    begin = end;
  } while (begin < to);
}

template <class T>
inline void AttentionKernel<T>::forward_strip(const Tile& t, std::int64_t s, T* scores,
                                              const HeadRows<T>& out, T* stats, T* spare) const {
  const std::int64_t keys = tiles.keys_of(t, s) - tiles.keys_from(t, s);
  if (cap > 0) Strip::cap(keys, cap, scores, nullptr);
  hide(t, s, scores);
  T top[kStrip], total[kStrip];
  Strip::largest(scores, keys, sink(t), top);
  for (std::int64_t i = 0; i < kStrip; ++i) total[i] = fast_exp(sink(t) - top[i]);
  for (std::int64_t j = 0; j < keys; ++j) {
    T* __restrict row = scores + j * kStride;
    for (std::int64_t i = 0; i < kStrip; ++i) {
      row[i] = fast_exp(row[i] - top[i]);
      total[i] += row[i];
    }
  }
  for_factors(t, s, [&](std::int64_t j, const T* factors) {
    T* const row = scores + j * kStride;
    typename Strip::Vector weights, kept;
    Strip::load(row, weights);
    Strip::load(factors, kept);
    Strip::store(weights * kept, row);
  });
  sum_of_values(t, s, scores, out, spare);
  for (std::int64_t r = s; r < std::min(t.rows, s + kStrip); ++r) {
    const T sum = total[r - s] == 0 ? T{1} : total[r - s], share = 1 / sum;
    T* row = at(out, t, t.first + r);
    for (std::int64_t i = 0; i < tiles.size.D; ++i) row[i] *= share;
    stats[2 * tiles.row_index(t, r)] = top[r - s];
    stats[2 * tiles.row_index(t, r) + 1] = sum;
  }
}

template <class T>
inline void AttentionKernel<T>::forward_query(const Tile& t, T* row, const HeadRows<T>& out,
                                              T* stats) const {
  const std::int64_t n = t.keys - t.from;
  const OneQuery<T> query{n, tiles.size.D};
  query.scores(at(q, t, 0), at_key(k, t, t.from), k.row, static_cast<T>(scale), row);
  if (cap > 0) soft_cap(n, cap, row);
  for (std::int64_t j = 0; padding != nullptr && j < n; ++j) {
    if (padding[t.b * tiles.size.Tk + t.from + j] != 0)
      row[j] = -std::numeric_limits<T>::infinity();
  }
  const T top = std::max(max_row(row, n), sink(t));
  const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
  for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
  const T sum = sum_row<T>(n, [=](auto j) { return row[j]; }) + fast_exp(sink(t) - shift);
  const T total = sum == 0 ? T{1} : sum;
  if (keep.drops()) keep.multiply(tiles.row_index(t, 0) * tiles.size.Tk + t.from, n, row, row);
  query.weighted_sum(row, at_key(v, t, t.from), v.row, 1 / total, at(out, t, 0));
  count_small_products(2 * n * tiles.size.D);
  stats[2 * tiles.row_index(t, 0)] = shift;
  stats[2 * tiles.row_index(t, 0) + 1] = total;
}

template <class T>
inline void AttentionKernel<T>::forward_cached_query(const Tile& t, T* spare,
                                                     const HeadRows<T>& out) const {
  const CacheType type = page(t, t.from).type();
  if constexpr (std::is_same_v<T, float>) {
    if (type == CacheType::f16) return query_pages<f16>(t, spare, out);
    if (type == CacheType::q8_0 && tiles.size.D % CachedPage::kBlock == 0) {
      return query_pages<std::int8_t>(t, spare, out);
    }
  }
  query_pages<T>(t, spare, out);
}

template <class T>
template <class E>
inline void AttentionKernel<T>::query_pages(const Tile& t, T* spare, const HeadRows<T>& out) const {
  const std::int64_t D = tiles.size.D, from = t.from / kPanel * kPanel, n = t.keys - t.from;
  T* const turned = spare;
  T* const read = spare + D;
  T* const scores = read + D * kPage;
  transpose(at(q, t, 0), q.row, 1, D, static_cast<T>(scale), turned, 1);
  const PanelQuery<T, E> query{D};
  query_panels(t, from, query, turned, read, scores);
  T* const row = scores + (t.from - from);
  if (cap > 0) soft_cap(n, cap, row);
  const T top = std::max(max_row(row, n), sink(t));
  const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
  for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
  T* const to = at(out, t, 0);
  T total = fast_exp(sink(t) - shift);
  for (std::int64_t begin = t.from, end = begin; begin < t.keys; begin = end) {
    end = std::min(t.keys, (begin / kPage + 1) * kPage);
    query.weighted_sum(row + (begin - t.from), stored_values<E>(t, begin, end - begin, read),
                       end - begin, begin > t.from, to, total);
  }
  const T share = 1 / (total == 0 ? T{1} : total);
  for (std::int64_t c = 0; c < D; ++c) to[c] *= share;
  count_small_products(2 * n * D);
}

template <class T>
template <class E>
inline void AttentionKernel<T>::query_panels(const Tile& t, std::int64_t from,
                                             const PanelQuery<T, E>& query, const T* turned,
                                             T* read, T* scores) const {
  using Query = PanelQuery<T, E>;
  constexpr std::int64_t kAtOnce = Query::kPanels * kPanel;
  const auto find = [&](std::int64_t begin, typename Query::Stored(&panels)[Query::kPanels]) {
    std::int64_t count = 0;
    for (std::int64_t at = begin; at < std::min(t.keys, begin + kAtOnce); at += kPanel) {
      panels[count] = stored_panel<E>(t, at, read + count * tiles.size.D * kPanel);
      ++count;
    }
    return count;
  };
  const bool in_place = !std::is_same_v<E, T> || page(t, from).type() == CacheType::f32;
  typename Query::Stored now[Query::kPanels] = {}, next[Query::kPanels] = {};
  std::int64_t count = find(from, now);
  for (std::int64_t begin = from; begin < t.keys; begin += kAtOnce) {
    const std::int64_t further = in_place ? find(begin + kAtOnce, next) : 0;
    for (std::int64_t i = further; i < Query::kPanels; ++i) next[i] = now[i];
    query.scores(turned, now, next, count, scores + (begin - from));
    count = in_place ? further : find(begin + kAtOnce, next);
    std::copy(std::begin(next), std::end(next), now);
  }
}

}  // namespace tapegrad
