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

// What becomes of scores before the softmax: see ScoreOptions in ops.h.
inline constexpr std::int64_t kNoWindow = std::int64_t{1} << 62;
struct ScoreRule {
  double scale = 1;
  double cap = 0;                   // 0: none
  std::int64_t window = kNoWindow;  // of causal attention
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
  ScoreRule rule;

  // out (B, Tq, H·D), and stats (B, H, Tq, 2): what makes a row of scores s its weights again,
  // exp(s − shift) / total. The shift is the largest score, or 0 where all are −∞; the total is
  // Σ exp(s − shift), or 1 where that is 0. One number, the log-sum-exp, would not do: its
  // rounding, which grows with the scores, makes the weights sum to 1 + δ, and the gradients are
  // differences in which a δ shows.
  void forward(HeadRows<T> out, T* stats) const {
    const std::int64_t tiles = tile_count();
    parallel_for(size.B * size.H * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t stride = size.Tq == 1 ? 1 : kStride;
      Tensor scratch = Tensor::empty({most_keys() + size.D, stride}, dtype_of<T>());
      T* weights = scratch.mutable_data<T>();
      T* turned = weights + most_keys() * stride;
      for (std::int64_t i = begin; i < end; ++i) {
        const Tile t = tile(i / tiles, i % tiles);
        if (size.Tq == 1) {
          forward_query(t, weights, out, stats);
          continue;
        }
        turn(q, t, scale(), turned);
        products_of_keys(t, k, turned, weights);
        for (std::int64_t s = 0; s < t.rows; s += kStrip) {
          forward_strip(t, s, strip(t, s, weights), out, stats);
        }
        count_small_products(2 * pairs(t) * size.D);
      }
    });
  }

  // dq, dk and dv from dout and forward's stats; dk and dv have a head for each of the queries'. A
  // head's keys are added to by all of its tiles, so threads share out whole heads. The last tile
  // comes first: without a window, it meets all keys, so that it can write what the others add to.
  // With a window, dk and dv must be 0 before.
  void backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq, HeadRows<T> dk,
                HeadRows<T> dv) const {
    parallel_for(size.B * size.H, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t keys = most_keys();
      const bool capped = rule.cap > 0;
      Tensor scratch = Tensor::empty({(capped ? 3 : 2) * keys + size.D, kStride}, dtype_of<T>());
      T* p = scratch.mutable_data<T>();
      T* da = p + keys * kStride;
      T* turned = da + keys * kStride;
      T* slopes = capped ? turned + size.D * kStride : nullptr;
      for (std::int64_t head = begin; head < end; ++head) {
        for (std::int64_t n = tile_count(); n-- > 0;) {
          const Tile t = tile(head, n);
          backward_tile(t, dout, stats, dq, dk, dv, p, da, turned, slopes);
          count_small_products(5 * pairs(t) * size.D);
        }
      }
    });
  }

 private:
  // Queries [first, first + rows) meet keys [from, keys). `past` is the position of query 0 among
  // the keys, if attention is causal. `width` is `rows`, rounded up to strips: columns behind the
  // last query hold numbers that nobody uses. Head h meets the keys of head `shared`. Row 0 of
  // scratch is that of key `from`.
  struct Tile {
    std::int64_t b, h, shared, first, past, rows, from, keys, width;
  };
  // From one row of scratch to the next. It is no power of two, so that the rows of a strip do not
  // compete for the same few places in the cache.
  static constexpr std::int64_t kStride = kQueryTile + kStrip;
  typedef T Strip __attribute__((vector_size(kStrip * sizeof(T))));

  static std::int64_t strips(std::int64_t n) { return (n + kStrip - 1) / kStrip * kStrip; }
  std::int64_t tile_count() const { return (size.Tq + kQueryTile - 1) / kQueryTile; }
  T scale() const { return static_cast<T>(rule.scale); }
  // A tile meets no more keys than these.
  std::int64_t most_keys() const {
    return rule.window < size.Tk ? std::min(size.Tk, rule.window + kQueryTile) : size.Tk;
  }

  Tile tile(std::int64_t head, std::int64_t n) const {
    const std::int64_t first = n * kQueryTile, rows = std::min(kQueryTile, size.Tq - first);
    const std::int64_t b = head / size.H, h = head % size.H;
    const std::int64_t past = lengths == nullptr ? 0 : lengths[b] - size.Tq;
    const std::int64_t keys = size.causal ? past + first + rows : size.Tk;
    const std::int64_t from = std::max<std::int64_t>(0, past + first + 1 - rule.window);
    return {b, h, h / size.group, first, past, rows, from, keys, strips(rows)};
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
  // The strip of queries from s on meets keys [keys_from(t, s), keys_of(t, s)).
  std::int64_t keys_of(const Tile& t, std::int64_t s) const {
    return size.causal ? std::min(t.keys, t.past + t.first + s + kStrip) : t.keys;
  }
  std::int64_t keys_from(const Tile& t, std::int64_t s) const {
    return std::max<std::int64_t>(0, t.past + t.first + s + 1 - rule.window);
  }
  // How many pairs of a query and a key the strips compute.
  std::int64_t pairs(const Tile& t) const {
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      sum += std::min(kStrip, t.rows - s) * (keys_of(t, s) - keys_from(t, s));
    }
    return sum;
  }
  // Calls f(begin, end, s, last) for ranges of keys, each of which the strips of queries [s, last)
  // meet.
  template <class F>
  void for_keys(const Tile& t, const F& f) const {
    if (!size.causal) return f(0, t.keys, 0, t.width);
    const std::int64_t first = t.past + t.first;  // the position of query 0
    for (std::int64_t begin = t.from, end = begin; begin < t.keys; begin = end) {
      const std::int64_t s = std::max<std::int64_t>(0, begin - first) / kStrip * kStrip;
      end = std::min(t.keys, first + s + kStrip);
      std::int64_t last = t.width;
      if (keys_from(t, t.width - kStrip) > begin) {  // the last strips begin behind
        last = (begin - first - 1 + rule.window) / kStrip * kStrip + kStrip;
        end = std::min(end, keys_from(t, last));
      }
      f(begin, end, s, last);
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
    for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s, std::int64_t last) {
      SmallProduct<T>{.m = end - begin,
                      .n = last - s,
                      .k = size.D,
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
    const std::int64_t from = keys_from(t, s);
    SmallProduct<T>{.m = std::min(kStrip, t.rows - s),
                    .n = size.D,
                    .k = keys_of(t, s) - from,
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
    const bool adds = t.first + t.rows < size.Tq || rule.window != kNoWindow;
    for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s, std::int64_t last) {
      SmallProduct<T>{.m = end - begin,
                      .n = size.D,
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

  // Where a strip's first key has its row in scratch.
  T* strip(const Tile& t, std::int64_t s, T* scratch) const {
    return scratch + (keys_from(t, s) - t.from) * kStride + s;
  }

  // Caps n scores. `slopes` gets how much each changes with what it was, if there is room for it.
  void cap(std::int64_t n, T* __restrict scores, T* __restrict slopes) const {
    const T most = static_cast<T>(rule.cap), inverse = static_cast<T>(1 / rule.cap);
    for (std::int64_t i = 0; i < n; ++i) scores[i] = fast_tanh(scores[i] * inverse);
    for (std::int64_t i = 0; slopes != nullptr && i < n; ++i) {
      slopes[i] = 1 - scores[i] * scores[i];
    }
    for (std::int64_t i = 0; i < n; ++i) scores[i] *= most;
  }
  void cap_strip(std::int64_t keys, T* scores, T* slopes) const {
    for (std::int64_t j = 0; rule.cap > 0 && j < keys; ++j) {
      cap(kStrip, scores + j * kStride, slopes == nullptr ? nullptr : slopes + j * kStride);
    }
  }

  // Sets the scores of keys that a query does not see to −∞, whose exponential is 0.
  void hide(const Tile& t, std::int64_t s, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::int64_t from = keys_from(t, s), keys = keys_of(t, s) - from;
    const std::int64_t first = t.past + t.first + s - from;  // query 0 stands at this key
    for (std::int64_t j = first + 1; size.causal && j < keys; ++j) {
      std::fill_n(scores + j * kStride, j - first, kHidden);
    }
    // Queries from `near` on are too far behind key j.
    for (std::int64_t j = 0; j < std::min(keys, first + kStrip - rule.window); ++j) {
      const std::int64_t near = j - first + rule.window;
      std::fill_n(scores + j * kStride + near, kStrip - near, kHidden);
    }
    for (std::int64_t j = 0; padding != nullptr && j < keys; ++j) {
      if (padding[t.b * size.Tk + from + j] != 0) {
        std::fill_n(scores + j * kStride, kStrip, kHidden);
      }
    }
  }

  // Calls f(key of the strip, factors of its queries) with dropout's factors. They are drawn faster
  // from multiples of 4 on.
  template <class F>
  void for_factors(const Tile& t, std::int64_t s, const F& f) const {
    if (!keep.drops()) return;
    const std::int64_t skip = keys_from(t, s) % 4, from = keys_from(t, s) - skip;
    keep.template columns<T>(row_index(t, s) * size.Tk + from, size.Tk,
                             std::min(kStrip, t.rows - s), keys_of(t, s) - from,
                             [&](std::int64_t j, const T* factors) {
                               if (j >= skip) f(j - skip, factors);
                             });
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
    const std::int64_t keys = keys_of(t, s) - keys_from(t, s);
    cap_strip(keys, scores, nullptr);
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
    const std::int64_t n = t.keys - t.from;
    gemm(Gemm<T>{.tb = true,
                 .m = 1,
                 .n = n,
                 .k = size.D,
                 .a = at(q, t, 0),
                 .lda = q.row,
                 .b = at_key(k, t, t.from),
                 .ldb = k.row,
                 .c = row,
                 .ldc = n,
                 .alpha = scale()});
    if (rule.cap > 0) cap(n, row, nullptr);
    for (std::int64_t j = 0; padding != nullptr && j < n; ++j) {
      if (padding[t.b * size.Tk + t.from + j] != 0) row[j] = -std::numeric_limits<T>::infinity();
    }
    const T top = max_row(row, n);
    const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
    for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
    const T sum = sum_row<T>(n, [=](auto j) { return row[j]; }), total = sum == 0 ? T{1} : sum;
    if (keep.drops()) keep.multiply(row_index(t, 0) * size.Tk + t.from, n, row, row);
    gemm(Gemm<T>{.m = 1,
                 .n = size.D,
                 .k = n,
                 .a = row,
                 .lda = n,
                 .b = at_key(v, t, t.from),
                 .ldb = v.row,
                 .c = at(out, t, 0),
                 .ldc = out.row,
                 .alpha = 1 / total});
    stats[2 * row_index(t, 0)] = shift;
    stats[2 * row_index(t, 0) + 1] = total;
  }

  // With P the weights, A = dropout(P) and dA = dO·Vᵀ:  dV = Aᵀ·dO,  dP = dropout(dA),
  // dS = P·(dP − Σ P·dP / Σ P),  dQ = dS·K·scale,  dK = dSᵀ·Q·scale. Σ P is 1 but for roundings.
  // With a cap, dS is also times the slope of the cap.
  void backward_tile(const Tile& t, const HeadRows<const T>& dout, const T* stats,
                     const HeadRows<T>& dq, const HeadRows<T>& dk, const HeadRows<T>& dv, T* p,
                     T* da, T* turned, T* slopes) const {
    turn(q, t, scale(), turned);
    products_of_keys(t, k, turned, p);
    turn(dout, t, 1, turned);
    products_of_keys(t, v, turned, da);
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      T* const da_strip = strip(t, s, da);
      backward_strip(t, s, stats, strip(t, s, p), da_strip,
                     slopes == nullptr ? nullptr : strip(t, s, slopes));
      sum_over_keys(t, s, da_strip, k, scale(), dq);
    }
    sum_over_queries(t, p, dout, 1, dv);
    sum_over_queries(t, da, q, scale(), dk);
  }

  // Turns the scores of a strip into A, and dA into dS.
  void backward_strip(const Tile& t, std::int64_t s, const T* stats, T* p, T* da, T* slopes) const {
    const std::int64_t keys = keys_of(t, s) - keys_from(t, s);
    cap_strip(keys, p, slopes);
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
    for (std::int64_t j = 0; slopes != nullptr && j < keys; ++j) {
      T* __restrict drow = da + j * kStride;
      const T* __restrict slope = slopes + j * kStride;
      for (std::int64_t i = 0; i < kStrip; ++i) drow[i] *= slope[i];
    }
  }
};

}  // namespace tapegrad
