#pragma once

#include <cmath>

#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Fused attention after Dao et al., "FlashAttention" (2022), section 3.1, with BLAS doing the
// products: a tile of queries meets all of its keys at once, the weights of that tile live in
// scratch memory, and backward computes them again from two numbers for each row. Memory is O(T),
// except for dropout's decisions where these are stored.

// One of q, k, v or of their gradients: B sequences of T rows, in each of which the H heads lie
// side by side. q, k and v packed in one tensor have larger distances than on their own.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t row = 0;    // elements from one position to the next
  std::int64_t batch = 0;  // elements from one sequence to the next
};

struct AttentionSizes {
  std::int64_t B, Tq, Tk, H, D;
  bool causal;
};

inline constexpr std::int64_t kQueryTile = 64;

template <class T>
class AttentionKernel {
 public:
  AttentionSizes size;
  HeadRows<const T> q, k, v;
  const KeepMask& keep;                   // of (B, H, Tq, Tk)
  const std::uint8_t* padding = nullptr;  // (B, Tk), null if all keys are real

  // out (B, Tq, H·D), and stats (B, H, Tq, 2): what makes a row of scores s its weights again,
  // exp(s − shift) / total. The shift is the largest score, or 0 where all are −∞; the total is
  // Σ exp(s − shift), or 1 where that is 0. One number, the log-sum-exp, would not do: its
  // rounding, which grows with the scores, makes the weights sum to 1 + δ, and the gradients are
  // differences in which a δ shows.
  void forward(HeadRows<T> out, T* stats) const {
    const std::int64_t tiles = (size.Tq + kQueryTile - 1) / kQueryTile;
    parallel_for(size.B * size.H * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      Tensor scratch = Tensor::empty({tile_rows() * size.Tk}, dtype_of<T>());
      T* weights = scratch.mutable_data<T>();
      for (std::int64_t i = begin; i < end; ++i) {
        const Tile t = tile(i / tiles, i % tiles);
        scores(t, weights);
        softmax_tile(t, weights, stats);
        gemm(Gemm<T>{.m = t.rows,
                     .n = size.D,
                     .k = t.keys,
                     .a = weights,
                     .lda = t.keys,
                     .b = at(v, t, 0),
                     .ldb = v.row,
                     .c = at(out, t, t.first),
                     .ldc = out.row});
      }
    });
  }

  // dq, dk and dv from dout and forward's stats. A head's keys are added to by all of its tiles, so
  // threads share out whole heads. The last tile comes first: it meets all keys, so that it can
  // write what the others add to.
  void backward(HeadRows<const T> dout, const T* stats, HeadRows<T> dq, HeadRows<T> dk,
                HeadRows<T> dv) const {
    parallel_for(size.B * size.H, 1, [&](std::int64_t begin, std::int64_t end) {
      Tensor scratch = Tensor::empty({2 * tile_rows() + 1, size.Tk}, dtype_of<T>());
      T* weights = scratch.mutable_data<T>();
      T* dweights = weights + tile_rows() * size.Tk;
      T* factors = dweights + tile_rows() * size.Tk;
      for (std::int64_t head = begin; head < end; ++head) {
        for (std::int64_t n = (size.Tq + kQueryTile - 1) / kQueryTile; n-- > 0;) {
          backward_tile(tile(head, n), dout, stats, dq, dk, dv, weights, dweights, factors);
        }
      }
    });
  }

 private:
  struct Tile {
    std::int64_t b, h, first, rows, keys;  // queries [first, first + rows) meet keys [0, keys)
  };

  std::int64_t tile_rows() const { return std::min(kQueryTile, size.Tq); }
  T scale() const { return static_cast<T>(1 / std::sqrt(static_cast<double>(size.D))); }

  Tile tile(std::int64_t head, std::int64_t n) const {
    const std::int64_t first = n * kQueryTile, rows = std::min(kQueryTile, size.Tq - first);
    return {head / size.H, head % size.H, first, rows, size.causal ? first + rows : size.Tk};
  }
  template <class U>
  U* at(const HeadRows<U>& x, const Tile& t, std::int64_t position) const {
    return x.data + t.b * x.batch + position * x.row + t.h * size.D;
  }
  std::int64_t row_index(const Tile& t, std::int64_t r) const {
    return (t.b * size.H + t.h) * size.Tq + t.first + r;
  }
  std::int64_t visible(const Tile& t, std::int64_t r) const {
    return size.causal ? t.first + r + 1 : t.keys;
  }

  void scores(const Tile& t, T* s) const {
    gemm(Gemm<T>{.tb = true,
                 .m = t.rows,
                 .n = t.keys,
                 .k = size.D,
                 .a = at(q, t, t.first),
                 .lda = q.row,
                 .b = at(k, t, 0),
                 .ldb = k.row,
                 .c = s,
                 .ldc = t.keys,
                 .alpha = scale()});
  }

  // Sets the scores of padding to −∞, whose exponential is 0.
  void hide_padding(const Tile& t, std::int64_t n, T* row) const {
    if (padding == nullptr) return;
    const std::uint8_t* mask = padding + t.b * size.Tk;
    for (std::int64_t j = 0; j < n; ++j) {
      row[j] = mask[j] != 0 ? -std::numeric_limits<T>::infinity() : row[j];
    }
  }

  void softmax_tile(const Tile& t, T* s, T* stats) const {
    for (std::int64_t r = 0; r < t.rows; ++r) {
      T* row = s + r * t.keys;
      const std::int64_t n = visible(t, r);
      hide_padding(t, n, row);
      const T top = max_row(row, n);
      const T shift = top == -std::numeric_limits<T>::infinity() ? T{0} : top;
      for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift);
      const T sum = sum_row<T>(n, [=](auto j) { return row[j]; });
      const T total = sum == 0 ? T{1} : sum;
      for (std::int64_t j = 0; j < n; ++j) row[j] /= total;
      std::fill(row + n, row + t.keys, T{0});
      stats[2 * row_index(t, r)] = shift;
      stats[2 * row_index(t, r) + 1] = total;
      if (keep.drops()) keep.multiply(row_index(t, r) * size.Tk, n, row, row);
    }
  }

  // With P the weights, A = dropout(P) and dA = dO·Vᵀ:  dV = Aᵀ·dO,  dP = dropout(dA),
  // dS = P·(dP − Σ P·dP),  dQ = dS·K/√D,  dK = dSᵀ·Q/√D.
  void backward_tile(const Tile& t, HeadRows<const T> dout, const T* stats, HeadRows<T> dq,
                     HeadRows<T> dk, HeadRows<T> dv, T* p, T* da, T* factors) const {
    const T* d = at(dout, t, t.first);
    const T add = static_cast<T>(t.first + t.rows < size.Tq);
    scores(t, p);
    gemm(Gemm<T>{.tb = true,
                 .m = t.rows,
                 .n = t.keys,
                 .k = size.D,
                 .a = d,
                 .lda = dout.row,
                 .b = at(v, t, 0),
                 .ldb = v.row,
                 .c = da,
                 .ldc = t.keys});
    for (std::int64_t r = 0; r < t.rows; ++r) {
      T* row = p + r * t.keys;
      T* drow = da + r * t.keys;
      const std::int64_t n = visible(t, r);
      const T shift = stats[2 * row_index(t, r)], total = stats[2 * row_index(t, r) + 1];
      hide_padding(t, n, row);
      for (std::int64_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - shift) / total;
      std::fill(row + n, row + t.keys, T{0});
      if (keep.drops()) {
        keep.factors(row_index(t, r) * size.Tk, n, factors);
        for (std::int64_t j = 0; j < n; ++j) drow[j] *= factors[j];
      }
      const T mean = sum_row<T>(n, [=](auto j) { return row[j] * drow[j]; });
      for (std::int64_t j = 0; j < n; ++j) drow[j] = row[j] * (drow[j] - mean);
      std::fill(drow + n, drow + t.keys, T{0});
      if (keep.drops()) {
        for (std::int64_t j = 0; j < n; ++j) row[j] *= factors[j];
      }
    }
    gemm(Gemm<T>{.ta = true,
                 .m = t.keys,
                 .n = size.D,
                 .k = t.rows,
                 .a = p,
                 .lda = t.keys,
                 .b = d,
                 .ldb = dout.row,
                 .c = at(dv, t, 0),
                 .ldc = dv.row,
                 .beta = add});
    gemm(Gemm<T>{.m = t.rows,
                 .n = size.D,
                 .k = t.keys,
                 .a = da,
                 .lda = t.keys,
                 .b = at(k, t, 0),
                 .ldb = k.row,
                 .c = at(dq, t, t.first),
                 .ldc = dq.row,
                 .alpha = scale()});
    gemm(Gemm<T>{.ta = true,
                 .m = t.keys,
                 .n = size.D,
                 .k = t.rows,
                 .a = da,
                 .lda = t.keys,
                 .b = at(q, t, t.first),
                 .ldb = q.row,
                 .c = at(dk, t, 0),
                 .ldc = dk.row,
                 .alpha = scale(),
                 .beta = add});
  }
};

}  // namespace tapegrad
