#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

// The numbers of one head in a tensor: those of position t begin at data + t·stride.
template <class T>
struct StateRows {
  T* data;
  std::int64_t stride;
  T* at(std::int64_t t) const { return data + t * stride; }
};

// A chunk of positions of one head of the gated delta rule (recurrent_ops.h), by products of
// matrices (Yang et al., "Gated Delta Networks", 2024, section 3.3). With the rows Q, K and V of
// its n positions, the sums G of g from the first of them on, and the state S before them:
//   D_ij = exp(G_i − G_j) for j ≤ i,  L_ij = β_i·(K·Kᵀ)_ij·D_ij for j < i,  P = (Q·Kᵀ)∘D,
//   (I + L)·U = β∘(V − exp(G)∘(K·S)),
//   O = scale·(exp(G)∘(Q·S) + P·U),  S' = exp(G_n)·S + (exp(G_n − G)∘K)ᵀ·U.
// K has A channels, V has C. Of a state that does not correct itself, U is β∘V, and the rest is the
// same (Dao & Gu, "Transformers are SSMs", 2024, section 6).
template <class T>
class StateChunk {
 public:
  static constexpr std::int64_t kPositions = 64;  // at most

  struct Inputs {
    StateRows<const T> q, k, v, g, beta;
  };
  // q and k get theirs added, since heads of values may share one of keys; the others are set.
  struct Gradients {
    StateRows<T> q, k, v, g, beta;
  };

  StateChunk(std::int64_t key_size, std::int64_t value_size, T scale, bool corrects);

  // Sets the outputs of positions [begin, begin + n). `state` (A, C) is that before them, and
  // becomes that after them.
  void forward(const Inputs& in, std::int64_t begin, std::int64_t n, T* state,
               const StateRows<T>& out);
  // The gradients of these positions, where `state` is that before them. `dstate` is the gradient
  // of the state after them, and becomes that of the state before them. In state_chunk_backward.h.
  void backward(const Inputs& in, std::int64_t begin, std::int64_t n, const T* state,
                const StateRows<const T>& dout, T* dstate, const Gradients& to);

 private:
  struct Matrix {
    const T* data;
    std::int64_t ld;
    bool transposed = false;
    Matrix t() const { return {data, ld, !transposed}; }
  };
  Matrix rows(const StateRows<const T>& x) const { return {x.at(begin_), x.stride}; }
  // C = alpha·A·B + beta·C.
  static void product(const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t n,
                      std::int64_t k, T* c, std::int64_t ldc, T beta = 0, T alpha = 1) {
    gemm(Gemm<T>{a.transposed, b.transposed, m, n, k, a.data, a.ld, b.data, b.ld, c, ldc, alpha,
                 beta});
  }
  template <class Term>
  static T sum_of(std::int64_t n, const Term& term);
  static T dot(const T* a, const T* b, std::int64_t n) {
    return sum_of(n, [=](std::int64_t i) { return a[i] * b[i]; });
  }
  static void add_scaled(T factor, const T* __restrict x, std::int64_t n, T* __restrict y) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
  }
  static void scale(T factor, T* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
  }
  void scale_rows(const T* factors, T* x, std::int64_t n) const {
    for (std::int64_t i = 0; i < n_; ++i) scale(factors[i], x + i * n, n);
  }
  // To m (n, n) in place of m: m∘D, with zeros above the diagonal, whatever m has there.
  void decay(T* m) const {
    for (std::int64_t i = 0; i < n_; ++i) {
      T* const row = m + i * n_;
      for (std::int64_t j = 0; j <= i; ++j) row[j] *= decay_[i * n_ + j];
      std::fill(row + i + 1, row + n_, T(0));
    }
  }
  void prepare(const Inputs& in, std::int64_t begin, std::int64_t n, const T* state);
  void find_decays(const StateRows<const T>& g);
  void find_values(const Inputs& in, const T* state);
  void solve();
  void solve_transposed();
  void outputs_back(const Inputs& in, const T* state, const T* dstate, const Gradients& to);
  void state_back(const Inputs& in, const T* state, T* dstate, const Gradients& to);
  void values_back(const Inputs& in, const Gradients& to);
  void right_side_back(const Inputs& in, const Gradients& to);
  void lower_back(const Inputs& in, const Gradients& to);
  void decays_back(const StateRows<T>& dg) const;

  std::int64_t A_, C_;
  T scale_;
  bool corrects_;
  std::int64_t begin_ = 0, n_ = 0;
  Scratch memory_;
  T* fall_;                         // (n): exp(G)
  const T* rest_ = nullptr;         // (n): exp(G_n − G), the last row of D
  T *dfall_, *drest_, dlast_ = 0;   // the gradients of the exponents of fall_, rest_ and exp(G_n)
  T *decay_, *overlap_, *lower_;    // (n, n): D and K·Kᵀ up to the diagonal, L below it
  T *scores_, *dscores_, *dlower_;  // (n, n): P, and the gradients of P and L
  T *read_, *u_, *du_, *dout_;      // (n, C): K·S, U; the gradients of U, and O/scale
  T* keys_;                         // (n, A)
};

template <class T>
StateChunk<T>::StateChunk(std::int64_t key_size, std::int64_t value_size, T scale, bool corrects)
    : A_(key_size),
      C_(value_size),
      scale_(scale),
      corrects_(corrects),
      memory_(
          static_cast<std::size_t>(kPositions * (3 + 6 * kPositions + 4 * value_size + key_size)) *
          sizeof(T)) {
  T* at = static_cast<T*>(memory_.data());
  const auto take = [&](std::int64_t width, std::initializer_list<T**> parts) {
    for (T** part : parts) *part = std::exchange(at, at + kPositions * width);
  };
  take(1, {&fall_, &dfall_, &drest_});
  take(kPositions, {&decay_, &overlap_, &lower_, &scores_, &dscores_, &dlower_});
  take(C_, {&read_, &u_, &du_, &dout_});
  take(A_, {&keys_});
}

template <class T>
template <class Term>
T StateChunk<T>::sum_of(std::int64_t n, const Term& term) {
  constexpr std::int64_t kLanes = 16;  // sums of their own, so that the loop becomes vector code
  T lanes[kLanes] = {}, sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  for (const T lane : lanes) sum += lane;
  for (; i < n; ++i) sum += term(i);
  return sum;
}

// By products of exp(g), since a difference of two sums would lose what their rounding loses, and
// would be no number where both are infinite.
template <class T>
void StateChunk<T>::find_decays(const StateRows<const T>& g) {
  constexpr T kLeast = std::numeric_limits<T>::min();  // what is below it is slow to compute with
  T fall = 1;
  for (std::int64_t i = 0; i < n_; ++i) {
    const T step = fast_exp(*g.at(begin_ + i));
    T* const row = decay_ + i * n_;
    for (std::int64_t j = 0; j < i; ++j) {
      const T decay = row[j - n_] * step;
      row[j] = decay < kLeast ? T(0) : decay;
    }
    row[i] = 1;
    fall *= step;
    fall_[i] = fall = fall < kLeast ? T(0) : fall;
  }
  rest_ = decay_ + (n_ - 1) * n_;
}

template <class T>
void StateChunk<T>::solve() {
  for (std::int64_t i = 1; i < n_; ++i) {
    for (std::int64_t j = 0; j < i; ++j)
      add_scaled(-lower_[i * n_ + j], u_ + j * C_, C_, u_ + i * C_);
  }
}

// All up to U and P.
template <class T>
void StateChunk<T>::prepare(const Inputs& in, std::int64_t begin, std::int64_t n, const T* state) {
  begin_ = begin, n_ = n;
  find_decays(in.g);
  product(rows(in.q), rows(in.k).t(), n_, n_, A_, scores_, n_);
  decay(scores_);
  if (corrects_) {
    find_values(in, state);
  } else {
    for (std::int64_t i = 0; i < n_; ++i) {
      const T beta = *in.beta.at(begin_ + i);
      const T* const v = in.v.at(begin_ + i);
      for (std::int64_t c = 0; c < C_; ++c) u_[i * C_ + c] = beta * v[c];
    }
  }
}

// U of a state that corrects itself.
template <class T>
void StateChunk<T>::find_values(const Inputs& in, const T* state) {
  const Matrix k = rows(in.k);
  product(k, k.t(), n_, n_, A_, overlap_, n_);
  product(k, {state, C_}, n_, C_, A_, read_, C_);
  for (std::int64_t i = 0; i < n_; ++i) {
    const T beta = *in.beta.at(begin_ + i), fall = fall_[i];
    const T *const v = in.v.at(begin_ + i), *const read = read_ + i * C_;
    T *const lower = lower_ + i * n_, *const u = u_ + i * C_;
    for (std::int64_t j = 0; j < i; ++j) {
      lower[j] = beta * overlap_[i * n_ + j] * decay_[i * n_ + j];
    }
    for (std::int64_t c = 0; c < C_; ++c) u[c] = beta * (v[c] - fall * read[c]);
  }
  solve();
}

template <class T>
void StateChunk<T>::forward(const Inputs& in, std::int64_t begin, std::int64_t n, T* state,
                            const StateRows<T>& out) {
  prepare(in, begin, n, state);
  T* const to = out.at(begin_);
  product(rows(in.q), {state, C_}, n_, C_, A_, to, out.stride, 0, scale_);
  for (std::int64_t i = 0; i < n_; ++i) scale(fall_[i], out.at(begin_ + i), C_);
  product({scores_, n_}, {u_, C_}, n_, C_, n_, to, out.stride, 1, scale_);
  scale_rows(rest_, u_, C_);
  scale(fall_[n_ - 1], state, A_ * C_);
  product(rows(in.k).t(), {u_, C_}, A_, C_, n_, state, C_, 1);
}

}  // namespace tapegrad
