#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/keep_mask.h"
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

struct AttentionSizes {
  std::int64_t B, Tq, Tk, H, D;
  bool causal;
  std::int64_t group = 1;  // heads of q that share a head of k and v
};

inline constexpr std::int64_t kQueryTile = 64;
// Queries that are computed side by side. Causal tiles leave out what all queries of a strip, or
// all keys of 16, do not see.
inline constexpr std::int64_t kStrip = 16;

template <class T>
class AttentionKernel {
 public:
  AttentionSizes size;
  HeadRows<const T> q, k, v;
  const KeepMask& keep;                   // of (B, H, Tq, Tk)
  const std::uint8_t* padding = nullptr;  // (B, Tk), null if all keys are real
  // (B), of causal attention: how many keys each sequence has, of which the last Tq are at its
  // queries' positions; Tk is the largest of them. Null: all have Tk.
  const std::int64_t* lengths = nullptr;

  // out (B, Tq, H·D), and stats (B, H, Tq, 2): what makes a row of scores s its weights again,
  // exp(s − shift) / total. The shift is the largest score, or 0 where all are −∞; the total is
  // Σ exp(s − shift), or 1 where that is 0. One number, the log-sum-exp, would not do: its
  // rounding, which grows with the scores, makes the weights sum to 1 + δ, and the gradients are
  // differences in which a δ shows.
  void forward(HeadRows<T> out, T* stats) const {
    const std::int64_t tiles = tile_count();
    parallel_for(size.B * size.H * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t stride = size.Tq == 1 ? 1 : kStride;
      Tensor scratch = Tensor::empty({size.Tk + size.D, stride}, dtype_of<T>());
      T* weights = scratch.mutable_data<T>();
      T* turned = weights + size.Tk * stride;
      for (std::int64_t i = begin; i < end; ++i) {
        const Tile t = tile(i / tiles, i % tiles);
        if (size.Tq == 1) {
          forward_query(t, weights, out, stats);
          continue;
        }
        turn(q, t, scale(), turned);
        products_of_keys(t, k, turned, weights);
        for (std::int64_t s = 0; s < t.rows; s += kStrip) {
          forward_strip(t, s, weights + s, out, stats);
        }
        count_small_products(2 * pairs(t) * size.D);
      }
    });
  }

  // dq, dk and dv from dout and forward's stats; dk and dv have a head for each of the queries'. A
  // head's keys are added to by all of its tiles, so threads share out whole heads. The last tile
  // comes first: it meets all keys, so that it can write what the others add to.
  void backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq, HeadRows<T> dk,
                HeadRows<T> dv) const {
    parallel_for(size.B * size.H, 1, [&](std::int64_t begin, std::int64_t end) {
      Tensor scratch = Tensor::empty({2 * size.Tk + size.D, kStride}, dtype_of<T>());
      T* p = scratch.mutable_data<T>();
      T* da = p + size.Tk * kStride;
      T* turned = da + size.Tk * kStride;
      for (std::int64_t head = begin; head < end; ++head) {
        for (std::int64_t n = tile_count(); n-- > 0;) {
          const Tile t = tile(head, n);
          backward_tile(t, dout, stats, dq, dk, dv, p, da, turned);
          count_small_products(5 * pairs(t) * size.D);
        }
      }
    });
  }

 private:
  // Queries [first, first + rows) meet keys [0, keys). `past` is the position of query 0 among the
  // keys, if attention is causal. `width` is `rows`, rounded up to strips: columns behind the last
  // query hold numbers that nobody uses. Head h meets the keys of head `shared`.
  struct Tile {
    std::int64_t b, h, shared, first, past, rows, keys, width;
  };
  // From one row of scratch to the next. It is no power of two, so that the rows of a strip do not
  // compete for the same few places in the cache.
  static constexpr std::int64_t kStride = kQueryTile + kStrip;
  typedef T Strip __attribute__((vector_size(kStrip * sizeof(T))));

  static std::int64_t strips(std::int64_t n) { return (n + kStrip - 1) / kStrip * kStrip; }
  std::int64_t tile_count() const { return (size.Tq + kQueryTile - 1) / kQueryTile; }
  T scale() const { return static_cast<T>(1 / std::sqrt(static_cast<double>(size.D))); }

  Tile tile(std::int64_t head, std::int64_t n) const {
    const std::int64_t first = n * kQueryTile, rows = std::min(kQueryTile, size.Tq - first);
    const std::int64_t b = head / size.H, h = head % size.H;
    const std::int64_t past = lengths == nullptr ? 0 : lengths[b] - size.Tq;
    const std::int64_t keys = size.causal ? past + first + rows : size.Tk;
    return {b, h, h / size.group, first, past, rows, keys, strips(rows)};
  }
  template <class U>
  U* at(const HeadRows<U>& x, const Tile& t, std::int64_t position) const {
    return x.data + t.b * x.batch + position * x.row + t.h * size.D;
  }
  // The same for k and v, whose heads are shared.
  const T* at_key(const HeadRows<const T>& x, const Tile& t, std::int64_t position) const {
    const T* start = x.starts == nullptr ? x.data + t.b * x.batch : x.starts[t.b];
    return start + position * x.row + t.shared * size.D;
  }
  std::int64_t row_index(const Tile& t, std::int64_t r) const {
    return (t.b * size.H + t.h) * size.Tq + t.first + r;
  }
  // How many keys the strip of queries from s on meets.
  std::int64_t keys_of(const Tile& t, std::int64_t s) const {
    return size.causal ? std::min(t.keys, t.past + t.first + s + kStrip) : t.keys;
  }
  // How many pairs of a query and a key the strips compute.
  std::int64_t pairs(const Tile& t) const {
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      sum += std::min(kStrip, t.rows - s) * keys_of(t, s);
    }
    return sum;
  }
  // Calls f(begin, end, s) for ranges of keys which the queries from s on meet.
  template <class F>
  void for_keys(const Tile& t, const F& f) const {
    const std::int64_t seen_by_all = t.past + t.first;
    f(0, size.causal ? seen_by_all : t.keys, 0);
    for (std::int64_t s = 0; size.causal && s < t.rows; s += kStrip) {
      f(seen_by_all + s, std::min(t.keys, seen_by_all + s + kStrip), s);
    }
  }

  // to (D, width) = factor·xᵀ for the tile's rows of x.
  void turn(const HeadRows<const T>& x, const Tile& t, T factor, T* to) const {
    const T* from = at(x, t, t.first);
    if (t.rows < t.width) std::fill(to, to + size.D * kStride, T{0});
    transpose(from, x.row, t.rows, size.D, factor, to, kStride);
  }

  // to (keys, width) = x·turned, for the rows of x that belong to the tile's keys.
  void products_of_keys(const Tile& t, const HeadRows<const T>& x, const T* turned, T* to) const {
    for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s) {
      SmallProduct<T>{.m = end - begin,
                      .n = t.width - s,
                      .k = size.D,
                      .a = at_key(x, t, begin),
                      .a_row = x.row,
                      .a_column = 1,
                      .b = turned + s,
                      .ldb = kStride,
                      .c = to + begin * kStride + s,
                      .ldc = kStride}();
    });
  }

  // to = factor·weights·x for a strip of queries: `weights` (keys, strip), x has a row for each
  // key.
  void sum_over_keys(const Tile& t, std::int64_t s, const T* weights, const HeadRows<const T>& x,
                     T factor, const HeadRows<T>& to) const {
    SmallProduct<T>{.m = std::min(kStrip, t.rows - s),
                    .n = size.D,
                    .k = keys_of(t, s),
                    .a = weights,
                    .a_row = 1,
                    .a_column = kStride,
                    .b = at_key(x, t, 0),
                    .ldb = x.row,
                    .c = at(to, t, t.first + s),
                    .ldc = to.row,
                    .alpha = factor}();
  }

  // to = factor·weights·x, a row for each key: x has a row for each query. Added to what the tiles
  // behind this one gave.
  void sum_over_queries(const Tile& t, const T* weights, const HeadRows<const T>& x, T factor,
                        const HeadRows<T>& to) const {
    for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s) {
      SmallProduct<T>{.m = end - begin,
                      .n = size.D,
                      .k = t.rows - s,
                      .a = weights + begin * kStride + s,
                      .a_row = kStride,
                      .a_column = 1,
                      .b = at(x, t, t.first + s),
                      .ldb = x.row,
                      .c = at(to, t, begin),
                      .ldc = to.row,
                      .alpha = factor,
                      .add = t.first + t.rows < size.Tq}();
    });
  }

  // Sets the scores of keys that a query does not see to −∞, whose exponential is 0.
  void hide(const Tile& t, std::int64_t s, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::int64_t first = t.past + t.first + s, keys = keys_of(t, s);
    for (std::int64_t j = first + 1; size.causal && j < keys; ++j) {
      std::fill_n(scores + j * kStride, j - first, kHidden);
    }
    for (std::int64_t j = 0; padding != nullptr && j < keys; ++j) {
      if (padding[t.b * size.Tk + j] != 0) std::fill_n(scores + j * kStride, kStrip, kHidden);
    }
  }

  // Calls f(key, factors of its queries) with dropout's factors.
  template <class F>
  void for_factors(const Tile& t, std::int64_t s, const F& f) const {
    if (!keep.drops()) return;
    keep.template columns<T>(row_index(t, s) * size.Tk, size.Tk, std::min(kStrip, t.rows - s),
                             keys_of(t, s), f);
  }

  // The largest score of each query; 0 for a query that sees no key.
  static void largest(const T* scores, std::int64_t keys, T (&top)[kStrip]) {
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    Strip most = Strip{} + kNone, row;
    for (std::int64_t j = 0; j < keys; ++j) {
      std::memcpy(&row, scores + j * kStride, sizeof(row));
      most = row > most ? row : most;
    }
    most = most == kNone ? Strip{} : most;
    std::memcpy(top, &most, sizeof(most));
  }

  // Σ P·dP / Σ P of each query, over its keys; a minus of P does not count.
  static void means(const T* p, const T* dp, std::int64_t keys, T (&mean)[kStrip]) {
    Strip total{}, sum{}, row, drow;
    for (std::int64_t j = 0; j < keys; ++j) {
      std::memcpy(&row, p + j * kStride, sizeof(row));
      std::memcpy(&drow, dp + j * kStride, sizeof(drow));
      row = row < 0 ? -row : row;
      total += row;
      sum += row * drow;
    }
    sum = total == 0 ? Strip{} : sum / total;
    std::memcpy(mean, &sum, sizeof(sum));
  }

  // A strip of out and stats from its scores, which become weights.
  void forward_strip(const Tile& t, std::int64_t s, T* scores, const HeadRows<T>& out,
                     T* stats) const {
    const std::int64_t keys = keys_of(t, s);
    hide(t, s, scores);
    T top[kStrip], total[kStrip] = {};
    largest(scores, keys, top);
    for (std::int64_t j = 0; j < keys; ++j) {
      T* __restrict row = scores + j * kStride;
      for (std::int64_t i = 0; i < kStrip; ++i) {
        row[i] = fast_exp(row[i] - top[i]);
        total[i] += row[i];
      }
    }
    for_factors(t, s, [&](std::int64_t j, const T* factors) {
      Strip row, factor;
      std::memcpy(&row, scores + j * kStride, sizeof(row));
      std::memcpy(&factor, factors, sizeof(factor));
      row *= factor;
      std::memcpy(scores + j * kStride, &row, sizeof(row));
    });
    sum_over_keys(t, s, scores, v, 1, out);
    for (std::int64_t r = s; r < std::min(t.rows, s + kStrip); ++r) {
      const T sum = total[r - s] == 0 ? T{1} : total[r - s], share = 1 / sum;
      T* row = at(out, t, t.first + r);
      for (std::int64_t i = 0; i < size.D; ++i) row[i] *= share;
      stats[2 * row_index(t, r)] = top[r - s];
      stats[2 * row_index(t, r) + 1] = sum;
    }
  }

  // The same for one query by itself, as generation has it, whose scores lie side by side: a strip
  // of one column would compute 15 others for nothing.
  void forward_query(const Tile& t, T* row, const HeadRows<T>& out, T* stats) const {
    const std::int64_t n = t.keys;
    gemm(Gemm<T>{.tb = true,
                 .m = 1,
                 .n = n,
                 .k = size.D,
                 .a = at(q, t, 0),
                 .lda = q.row,
                 .b = at_key(k, t, 0),
                 .ldb = k.row,
                 .c = row,
                 .ldc = n,
                 .alpha = scale()});
    for (std::int64_t j = 0; padding != nullptr && j < n; ++j) {
      if (padding[t.b * size.Tk + j] != 0) row[j] = -std::numeric_limits<T>::infinity();
    }
    const T top = max_row(row, n);
    const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
    for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
    const T sum = sum_row<T>(n, [=](auto j) { return row[j]; }), total = sum == 0 ? T{1} : sum;
    if (keep.drops()) keep.multiply(row_index(t, 0) * size.Tk, n, row, row);
    gemm(Gemm<T>{.m = 1,
                 .n = size.D,
                 .k = n,
                 .a = row,
                 .lda = n,
                 .b = at_key(v, t, 0),
                 .ldb = v.row,
                 .c = at(out, t, 0),
                 .ldc = out.row,
                 .alpha = 1 / total});
    stats[2 * row_index(t, 0)] = shift;
    stats[2 * row_index(t, 0) + 1] = total;
  }

  // With P the weights, A = dropout(P) and dA = dO·Vᵀ:  dV = Aᵀ·dO,  dP = dropout(dA),
  // dS = P·(dP − Σ P·dP / Σ P),  dQ = dS·K/√D,  dK = dSᵀ·Q/√D. Σ P is 1 but for roundings.
  void backward_tile(const Tile& t, const HeadRows<const T>& dout, const T* stats,
                     const HeadRows<T>& dq, const HeadRows<T>& dk, const HeadRows<T>& dv, T* p,
                     T* da, T* turned) const {
    turn(q, t, scale(), turned);
    products_of_keys(t, k, turned, p);
    turn(dout, t, 1, turned);
    products_of_keys(t, v, turned, da);
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      backward_strip(t, s, stats, p + s, da + s);
      sum_over_keys(t, s, da + s, k, scale(), dq);
    }
    sum_over_queries(t, p, dout, 1, dv);
    sum_over_queries(t, da, q, scale(), dk);
  }

  // Turns the scores of a strip into A, and dA into dS.
  void backward_strip(const Tile& t, std::int64_t s, const T* stats, T* p, T* da) const {
    const std::int64_t keys = keys_of(t, s);
    hide(t, s, p);
    T shift[kStrip] = {}, share[kStrip] = {}, mean[kStrip];
    for (std::int64_t i = 0; i < std::min(kStrip, t.rows - s); ++i) {
      shift[i] = stats[2 * row_index(t, s + i)];
      share[i] = 1 / stats[2 * row_index(t, s + i) + 1];
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      T* row = p + j * kStride;
      for (std::int64_t i = 0; i < kStrip; ++i) row[i] = fast_exp(row[i] - shift[i]) * share[i];
    }
    // What is dropped gets a minus, until dS is made of it.
    for_factors(t, s, [&](std::int64_t j, const T* factors) {
      Strip row, drow, factor;
      std::memcpy(&row, p + j * kStride, sizeof(row));
      std::memcpy(&drow, da + j * kStride, sizeof(drow));
      std::memcpy(&factor, factors, sizeof(factor));
      drow *= factor;
      row = factor > 0 ? row : -row;
      std::memcpy(p + j * kStride, &row, sizeof(row));
      std::memcpy(da + j * kStride, &drow, sizeof(drow));
    });
    means(p, da, keys, mean);
    const T kept = keep.drops() ? static_cast<T>(keep.scale(dtype_of<T>())) : T{1};
    for (std::int64_t j = 0; j < keys; ++j) {
      T* __restrict row = p + j * kStride, * __restrict drow = da + j * kStride;
      for (std::int64_t i = 0; i < kStrip; ++i) {
        drow[i] = std::abs(row[i]) * (drow[i] - mean[i]);
        row[i] = row[i] < 0 ? T{0} : row[i] * kept;
      }
    }
  }
};

}  // namespace tapegrad
