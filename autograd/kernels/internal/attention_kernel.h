#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/autograd/kernels/internal/attention_strip.h"
#include "tapegrad/autograd/kernels/internal/attention_tiles.h"
#include "tapegrad/autograd/kernels/internal/one_query.h"
#include "tapegrad/autograd/kernels/internal/panel_query.h"
#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/kernels/keep_mask.h"
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
  std::int64_t row = 0;    // elements from one position to the next
  std::int64_t batch = 0;  // elements from one sequence to the next
};

template <class T>
struct AttentionKernel {
  AttentionTiles tiles;
  HeadRows<const T> q, k, v;
  std::span<const CachedKeys> cached = {};  // (B), in place of k and v: no dropout, no backward
  const KeepMask& keep;                     // of (B, H, Tq, Tk)
  const std::uint8_t* padding = nullptr;    // (B, Tk), null if all keys are real
  double scale = 1;                         // of scores
  double cap = 0;                           // of scores after that; 0: none
  const T* sinks = nullptr;                 // (H), see ScoreOptions in ops.h; null: none

  // out (B, Tq, H·D), and stats (B, H, Tq, 2): what makes a row of scores s its weights again,
  // exp(s − shift) / total. The shift is the largest score, or 0 where all are −∞; the total is
  // Σ exp(s − shift), or 1 where that is 0. The head's sink counts as a score. One number, the
  // log-sum-exp, would not do: its rounding, which grows with the scores, makes the weights sum to
  // 1 + δ, and the gradients are differences in which a δ shows.
  void forward(HeadRows<T> out, T* stats) const;
  // dq, dk and dv from dout and forward's stats; dk and dv have a head for each of the queries'. A
  // head's keys are added to by all of its tiles, so threads share out whole heads. The last tile
  // comes first: where it meets all keys, it can write what the others add to. Where it does not,
  // by a window or documents, dk and dv must be 0 before. With sinks, dsinks (B, H, Tq) is what
  // each query adds to the gradient of its head's.
  void backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq, HeadRows<T> dk,
                HeadRows<T> dv, T* dsinks) const;

 private:
  using Tile = AttentionTiles::Tile;
  using Strip = AttentionStrip<T>;
  static constexpr std::int64_t kStrip = AttentionTiles::kStrip, kStride = Strip::kStride;
  static constexpr std::int64_t kPanel = CachedPage::kPanel, kPage = CachedPage::kPositions;
  static_assert(kPage == SmallProduct<T>::kDepth);

  // The logit of the tile's head that has no value; −∞, whose exponential is 0, without sinks.
  T sink(const Tile& t) const {
    return sinks == nullptr ? -std::numeric_limits<T>::infinity() : sinks[t.h];
  }
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
    return x.data + t.b * x.batch + position * x.row + t.shared * tiles.size.D;
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

  // The same for keys in pages.
  void products_of_panels(const Tile& t, const T* turned, T* to, T* spare) const {
    tiles.for_keys(t, [&](std::int64_t begin, std::int64_t end, std::int64_t s, std::int64_t last) {
      for (std::int64_t next; begin < end; begin = next) {
        next = std::min(end, (begin / kPanel + 1) * kPanel);
        SmallProduct<T>{.m = next - begin,
                        .n = last - s,
                        .k = tiles.size.D,
                        .a = panel(t, begin, spare) + begin % kPanel,
                        .a_row = 1,
                        .a_column = kPanel,
                        .b = turned + s,
                        .ldb = kStride,
                        .c = to + (begin - t.from) * kStride + s,
                        .ldc = kStride}();
      }
    });
  }

  // Keys and values of the tile's head from position `at` on, which may be read into `spare`.
  const CachedPage& page(const Tile& t, std::int64_t at) const {
    return *cached[static_cast<std::size_t>(t.b)].pages[static_cast<std::size_t>(at / kPage)];
  }
  const T* panel(const Tile& t, std::int64_t at, T* spare) const {
    const std::int64_t D = tiles.size.D;
    return page(t, at).template panel<T>(at % kPage, t.shared * D, D, spare);
  }
  CachedPage::Rows<T> values(const Tile& t, std::int64_t at, std::int64_t count, T* spare) const {
    if (cached.empty()) return {at_key(v, t, at), v.row};
    const std::int64_t D = tiles.size.D;
    return page(t, at).template values<T>(at % kPage, count, t.shared * D, D, spare);
  }
  // The same as they are stored, in place, but for those of T that a page stores in another type.
  template <class E>
  CachedPage::Stored<E> stored_panel(const Tile& t, std::int64_t at, T* spare) const {
    if constexpr (std::is_same_v<E, T>) {
      return {panel(t, at, spare)};
    } else {
      return page(t, at).template stored_panel<E>(at % kPage, t.shared * tiles.size.D);
    }
  }
  template <class E>
  CachedPage::Stored<E> stored_values(const Tile& t, std::int64_t at, std::int64_t count,
                                      T* spare) const {
    if constexpr (std::is_same_v<E, T>) {
      const CachedPage::Rows<T> rows = values(t, at, count, spare);
      return {rows.data, rows.row};
    } else {
      return page(t, at).template stored_values<E>(at % kPage, t.shared * tiles.size.D);
    }
  }
  // Room for a query and its scores, whole panels, and for what is read of a page.
  Tensor spare() const {
    if (cached.empty()) return {};
    return Tensor::empty({tiles.most_keys() + 2 * kPanel + tiles.size.D * (1 + kPage)},
                         dtype_of<T>());
  }

  // Sets the scores of keys that a query does not see to −∞, whose exponential is 0.
  void hide(const Tile& t, std::int64_t s, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::int64_t from = tiles.keys_from(t, s), keys = tiles.keys_of(t, s) - from;
    const std::int64_t first = t.past + t.first + s - from;  // query 0 stands at this key
    for (std::int64_t j = first + 1; tiles.size.causal && j < keys; ++j) {
      std::fill_n(scores + j * kStride, j - first, kHidden);
    }
    // Queries from `near` on are too far behind key j, or in another document.
    std::int64_t near = 1;
    const std::int64_t rows = std::min(kStrip, t.rows - s);
    for (std::int64_t j = 0; j < keys && !tiles.meets_all(); ++j) {
      while (near < rows && tiles.first_key(t.b, t.past, t.first + s + near) - from <= j) ++near;
      if (near == rows) break;
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

  // Of attention_forward.h.
  // out = weights·v for a strip of queries. Long sums are made of parts as SmallProduct makes them,
  // whose bounds do not depend on where the strip's keys begin.
  void sum_of_values(const Tile& t, std::int64_t s, const T* weights, const HeadRows<T>& out,
                     T* spare) const;
  // A strip of out and stats from its scores, which become weights.
  void forward_strip(const Tile& t, std::int64_t s, T* scores, const HeadRows<T>& out, T* stats,
                     T* spare) const;
  // The same for one query by itself, as generation has it, whose scores lie side by side: a strip
  // of one column would compute 15 others for nothing.
  void forward_query(const Tile& t, T* row, const HeadRows<T>& out, T* stats) const;
  // The same for keys in pages, in the order of forward_strip().
  void forward_cached_query(const Tile& t, T* spare, const HeadRows<T>& out) const;
  template <class E>
  void query_pages(const Tile& t, T* spare, const HeadRows<T>& out) const;
  template <class E>
  void query_panels(const Tile& t, std::int64_t from, const PanelQuery<T, E>& query,
                    const T* turned, T* read, T* scores) const;

  // Of attention_backward.h.
  // to = factor·weights·x for a strip of queries: `weights` (keys of the strip, strip), x has a row
  // for each key.
  void sum_over_keys(const Tile& t, std::int64_t s, const T* weights, const HeadRows<const T>& x,
                     T factor, const HeadRows<T>& to) const;
  // to = factor·weights·x, a row for each key: x has a row for each query. Added to what the tiles
  // behind this one gave.
  void sum_over_queries(const Tile& t, const T* weights, const HeadRows<const T>& x, T factor,
                        const HeadRows<T>& to) const;
  // With P the weights, A = dropout(P) and dA = dO·Vᵀ:  dV = Aᵀ·dO,  dP = dropout(dA),
  // dS = P·(dP − Σ P·dP / Σ P),  dQ = dS·K·scale,  dK = dSᵀ·Q·scale. Σ P is 1 but for roundings.
  // With a cap, dS is also times the slope of the cap. A sink is one more of the P, whose dP is 0.
  void backward_tile(const Tile& t, const HeadRows<const T>& dout, const T* stats,
                     const HeadRows<T>& dq, const HeadRows<T>& dk, const HeadRows<T>& dv, T* dsinks,
                     T* p, T* da, T* turned, T* slopes) const;
  // Turns the scores of a strip into A, and dA into dS.
  void backward_strip(const Tile& t, std::int64_t s, const T* stats, T* p, T* da, T* slopes,
                      T* dsinks) const;
};

}  // namespace tapegrad
