#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/attention_strip.h"
#include "tapegrad/autograd/kernels/attention_tiles.h"
#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/autograd/kernels/one_query.h"
#include "tapegrad/autograd/kernels/small_product.h"
#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

// Fused attention after Dao et al., "FlashAttention" (2022), section 3.1: a tile of queries meets
// all of its keys at once, the weights of that tile live in scratch memory, and backward computes
// them again from two numbers for each row. Memory is O(T), except for dropout's decisions where
// these are stored.
//
// Scores and weights of a tile are transposed: a row for each key, a column for each query. So
// maxima and sums over keys need no sum across a register, and of all products only the scores need
// an operand that is turned around: the tile's queries.

// One of q, k, v or of their gradients: B sequences of T rows, in each of which the heads lie side
// by side. q, k and v packed in one tensor have larger distances than on their own.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t row = 0;        // elements from one position to the next
  std::int64_t batch = 0;      // elements from one sequence to the next
  T* const* starts = nullptr;  // (B): where each sequence begins, in place of data and batch
};

template <class T>
struct AttentionKernel {
  AttentionTiles tiles;
  HeadRows<const T> q, k, v;
  const KeepMask& keep;                   // of (B, H, Tq, Tk)
  const std::uint8_t* padding = nullptr;  // (B, Tk), null if all keys are real
  double scale = 1;                       // of scores
  double cap = 0;                         // of scores after that; 0: none

  // out (B, Tq, H·D), and stats (B, H, Tq, 2): what makes a row of scores s its weights again,
  // exp(s − shift) / total. The shift is the largest score, or 0 where all are −∞; the total is
  // Σ exp(s − shift), or 1 where that is 0. One number, the log-sum-exp, would not do: its
  // rounding, which grows with the scores, makes the weights sum to 1 + δ, and the gradients are
  // differences in which a δ shows.
  void forward(HeadRows<T> out, T* stats) const {
    const std::int64_t count = tiles.tile_count();
    parallel_for(tiles.size.B * tiles.size.H * count, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t stride = tiles.size.Tq == 1 ? 1 : kStride;
      Tensor scratch = Tensor::empty({tiles.most_keys() + tiles.size.D, stride}, dtype_of<T>());
      T* weights = scratch.mutable_data<T>();
      T* turned = weights + tiles.most_keys() * stride;
      for (std::int64_t i = begin; i < end; ++i) {
        const Tile t = tiles.tile(i / count, i % count);
        if (tiles.size.Tq == 1) {
          forward_query(t, weights, out, stats);
          continue;
        }
        turn(q, t, static_cast<T>(scale), turned);
        products_of_keys(t, k, turned, weights);
        for (std::int64_t s = 0; s < t.rows; s += kStrip) {
          forward_strip(t, s, strip(t, s, weights), out, stats);
        }
        count_small_products(2 * tiles.pairs(t) * tiles.size.D);
      }
    });
  }

  // dq, dk and dv from dout and forward's stats; dk and dv have a head for each of the queries'. A
  // head's keys are added to by all of its tiles, so threads share out whole heads. The last tile
  // comes first: without a window, it meets all keys, so that it can write what the others add to.
  // With a window, dk and dv must be 0 before.
  void backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq, HeadRows<T> dk,
                HeadRows<T> dv) const {
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
          backward_tile(t, dout, stats, dq, dk, dv, p, da, turned, slopes);
          count_small_products(5 * tiles.pairs(t) * tiles.size.D);
        }
      }
    });
  }

 private:
  using Tile = AttentionTiles::Tile;
  using Strip = AttentionStrip<T>;
  static constexpr std::int64_t kStrip = AttentionTiles::kStrip, kStride = Strip::kStride;

  // Where the strip of queries from s on begins in the rows of its tile.
  T* strip(const Tile& t, std::int64_t s, T* rows) const {
    return rows + (tiles.keys_from(t, s) - t.from) * kStride + s;
  }
  template <class U>
  U* at(const HeadRows<U>& x, const Tile& t, std::int64_t position) const {
    return x.data + t.b * x.batch + position * x.row + t.h * tiles.size.D;
  }
  // The same for k and v, whose heads are shared.
  const T* at_key(const HeadRows<const T>& x, const Tile& t, std::int64_t position) const {
    const T* start = x.starts == nullptr ? x.data + t.b * x.batch : x.starts[t.b];
    return start + position * x.row + t.shared * tiles.size.D;
  }
  // to (D, width) = factor·xᵀ for the tile's rows of x.
  void turn(const HeadRows<const T>& x, const Tile& t, T factor, T* to) const {
    const T* from = at(x, t, t.first);
    if (t.rows < t.width) std::fill(to, to + tiles.size.D * kStride, T{0});
    transpose(from, x.row, t.rows, tiles.size.D, factor, to, kStride);
  }

  // to (keys, width) = x·turned, for the rows of x that belong to the tile's keys.
  void products_of_keys(const Tile& t, const HeadRows<const T>& x, const T* turned, T* to) const {
    tiles.for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s, std::int64_t last) {
      SmallProduct<T>{.m = end - begin,
                      .n = last - s,
                      .k = tiles.size.D,
                      .a = at_key(x, t, begin),
                      .a_row = x.row,
                      .a_column = 1,
                      .b = turned + s,
                      .ldb = kStride,
                      .c = to + (begin - t.from) * kStride + s,
                      .ldc = kStride}();
    });
  }

  // to = factor·weights·x for a strip of queries: `weights` (keys of the strip, strip), x has a row
  // for each key.
  void sum_over_keys(const Tile& t, std::int64_t s, const T* weights, const HeadRows<const T>& x,
                     T factor, const HeadRows<T>& to) const {
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

  // to = factor·weights·x, a row for each key: x has a row for each query. Added to what the tiles
  // behind this one gave.
  void sum_over_queries(const Tile& t, const T* weights, const HeadRows<const T>& x, T factor,
                        const HeadRows<T>& to) const {
    const bool adds = t.first + t.rows < tiles.size.Tq || tiles.window != AttentionTiles::kNoWindow;
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

  // Sets the scores of keys that a query does not see to −∞, whose exponential is 0.
  void hide(const Tile& t, std::int64_t s, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::int64_t from = tiles.keys_from(t, s), keys = tiles.keys_of(t, s) - from;
    const std::int64_t first = t.past + t.first + s - from;  // query 0 stands at this key
    for (std::int64_t j = first + 1; tiles.size.causal && j < keys; ++j) {
      std::fill_n(scores + j * kStride, j - first, kHidden);
    }
    // Queries from `near` on are too far behind key j.
    for (std::int64_t j = 0; j < std::min(keys, first + kStrip - tiles.window); ++j) {
      const std::int64_t near = j - first + tiles.window;
      std::fill_n(scores + j * kStride + near, kStrip - near, kHidden);
    }
    for (std::int64_t j = 0; padding != nullptr && j < keys; ++j) {
      if (padding[t.b * tiles.size.Tk + from + j] != 0) {
        std::fill_n(scores + j * kStride, kStrip, kHidden);
      }
    }
  }

  // Calls f(key of the strip, factors of its queries) with dropout's factors. They are drawn faster
  // from multiples of 4 on.
  template <class F>
  void for_factors(const Tile& t, std::int64_t s, const F& f) const {
    if (!keep.drops()) return;
    const std::int64_t skip = tiles.keys_from(t, s) % 4, from = tiles.keys_from(t, s) - skip;
    keep.template columns<T>(tiles.row_index(t, s) * tiles.size.Tk + from, tiles.size.Tk,
                             std::min(kStrip, t.rows - s), tiles.keys_of(t, s) - from,
                             [&](std::int64_t j, const T* factors) {
                               if (j >= skip) f(j - skip, factors);
                             });
  }

  // A strip of out and stats from its scores, which become weights.
  void forward_strip(const Tile& t, std::int64_t s, T* scores, const HeadRows<T>& out,
                     T* stats) const {
    const std::int64_t keys = tiles.keys_of(t, s) - tiles.keys_from(t, s);
    if (cap > 0) Strip::cap(keys, cap, scores, nullptr);
    hide(t, s, scores);
    T top[kStrip], total[kStrip] = {};
    Strip::largest(scores, keys, top);
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
    sum_over_keys(t, s, scores, v, 1, out);
    for (std::int64_t r = s; r < std::min(t.rows, s + kStrip); ++r) {
      const T sum = total[r - s] == 0 ? T{1} : total[r - s], share = 1 / sum;
      T* row = at(out, t, t.first + r);
      for (std::int64_t i = 0; i < tiles.size.D; ++i) row[i] *= share;
      stats[2 * tiles.row_index(t, r)] = top[r - s];
      stats[2 * tiles.row_index(t, r) + 1] = sum;
    }
  }

  // The same for one query by itself, as generation has it, whose scores lie side by side: a strip
  // of one column would compute 15 others for nothing.
  void forward_query(const Tile& t, T* row, const HeadRows<T>& out, T* stats) const {
    const std::int64_t n = t.keys - t.from;
    const OneQuery<T> query{n, tiles.size.D};
    query.scores(at(q, t, 0), at_key(k, t, t.from), k.row, static_cast<T>(scale), row);
    if (cap > 0) soft_cap(n, cap, row);
    for (std::int64_t j = 0; padding != nullptr && j < n; ++j) {
      if (padding[t.b * tiles.size.Tk + t.from + j] != 0)
        row[j] = -std::numeric_limits<T>::infinity();
    }
    const T top = max_row(row, n);
    const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
    for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
    const T sum = sum_row<T>(n, [=](auto j) { return row[j]; }), total = sum == 0 ? T{1} : sum;
    if (keep.drops()) keep.multiply(tiles.row_index(t, 0) * tiles.size.Tk + t.from, n, row, row);
    query.weighted_sum(row, at_key(v, t, t.from), v.row, 1 / total, at(out, t, 0));
    count_small_products(2 * n * tiles.size.D);
    stats[2 * tiles.row_index(t, 0)] = shift;
    stats[2 * tiles.row_index(t, 0) + 1] = total;
  }

  // With P the weights, A = dropout(P) and dA = dO·Vᵀ:  dV = Aᵀ·dO,  dP = dropout(dA),
  // dS = P·(dP − Σ P·dP / Σ P),  dQ = dS·K·scale,  dK = dSᵀ·Q·scale. Σ P is 1 but for roundings.
  // With a cap, dS is also times the slope of the cap.
  void backward_tile(const Tile& t, const HeadRows<const T>& dout, const T* stats,
                     const HeadRows<T>& dq, const HeadRows<T>& dk, const HeadRows<T>& dv, T* p,
                     T* da, T* turned, T* slopes) const {
    turn(q, t, static_cast<T>(scale), turned);
    products_of_keys(t, k, turned, p);
    turn(dout, t, 1, turned);
    products_of_keys(t, v, turned, da);
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      T* const da_strip = strip(t, s, da);
      backward_strip(t, s, stats, strip(t, s, p), da_strip,
                     slopes == nullptr ? nullptr : strip(t, s, slopes));
      sum_over_keys(t, s, da_strip, k, static_cast<T>(scale), dq);
    }
    sum_over_queries(t, p, dout, 1, dv);
    sum_over_queries(t, da, q, static_cast<T>(scale), dk);
  }

  // Turns the scores of a strip into A, and dA into dS.
  void backward_strip(const Tile& t, std::int64_t s, const T* stats, T* p, T* da, T* slopes) const {
    const std::int64_t keys = tiles.keys_of(t, s) - tiles.keys_from(t, s);
    if (cap > 0) Strip::cap(keys, cap, p, slopes);
    hide(t, s, p);
    T shift[kStrip] = {}, share[kStrip] = {}, mean[kStrip];
    for (std::int64_t i = 0; i < std::min(kStrip, t.rows - s); ++i) {
      shift[i] = stats[2 * tiles.row_index(t, s + i)];
      share[i] = 1 / stats[2 * tiles.row_index(t, s + i) + 1];
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      T* row = p + j * kStride;
      for (std::int64_t i = 0; i < kStrip; ++i) row[i] = fast_exp(row[i] - shift[i]) * share[i];
    }
    // What is dropped gets a minus, until dS is made of it.
    for_factors(t, s, [&](std::int64_t j, const T* factors) {
      T *const row = p + j * kStride, *const drow = da + j * kStride;
      typename Strip::Vector weights, dweights, kept;
      Strip::load(row, weights);
      Strip::load(drow, dweights);
      Strip::load(factors, kept);
      Strip::store(kept > 0 ? weights : -weights, row);
      Strip::store(dweights * kept, drow);
    });
    Strip::means(p, da, keys, mean);
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
};

}  // namespace tapegrad
