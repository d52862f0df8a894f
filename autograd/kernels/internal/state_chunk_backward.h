#pragma once

#include <algorithm>
#include <cstdint>

#include "tapegrad/autograd/kernels/internal/state_chunk.h"

namespace tapegrad {

template <class T>
void StateChunk<T>::solve_transposed() {
  for (std::int64_t i = n_; i-- > 1;) {
    for (std::int64_t j = 0; j < i; ++j) {
      add_scaled(-lower_[i * n_ + j], du_ + i * C_, C_, du_ + j * C_);
    }
  }
}

template <class T>
void StateChunk<T>::backward(const Inputs& in, std::int64_t begin, std::int64_t n, const T* state,
                             const StateRows<const T>& dout, T* dstate, const Gradients& to) {
  prepare(in, begin, n, state);
  for (std::int64_t i = 0; i < n_; ++i) {
    const T* const from = dout.at(begin_ + i);
    for (std::int64_t c = 0; c < C_; ++c) dout_[i * C_ + c] = scale_ * from[c];
  }
  outputs_back(in, state, dstate, to);
  if (corrects_) {
    solve_transposed();  // du_ is the gradient of the right side from here on
    product({du_, C_}, Matrix{u_, C_}.t(), n_, n_, C_, dlower_, n_, 0, -1);
  }
  state_back(in, state, dstate, to);
  decays_back(to.g);
}

// g_t is in the exponents of what passes from before t to t or later: D_ij for j < t ≤ i, exp(G_i)
// for t ≤ i, exp(G_n − G_j) for j < t, and exp(G_n). Their gradients are added up, and none is
// subtracted again, so that a g that lets nothing pass has the gradient 0.
template <class T>
void StateChunk<T>::decays_back(const StateRows<T>& dg) const {
  T columns[kPositions], state = dlast_;
  std::copy_n(drest_, n_, columns);
  for (std::int64_t t = n_; t-- > 0;) {
    state += dfall_[t];
    add_scaled(1, scores_ + t * n_, t, columns);
    *dg.at(begin_ + t) = state + sum_of(t, [&](std::int64_t j) { return columns[j]; });
  }
}

// From O and S' to P, U, Q, the S of O, and the K of S'. Leaves the gradients of D's exponents, as
// far as they come from P, in scores_.
template <class T>
void StateChunk<T>::outputs_back(const Inputs& in, const T* state, const T* dstate,
                                 const Gradients& to) {
  product(rows(in.k), {dstate, C_}, n_, C_, A_, du_, C_);
  scale_rows(rest_, du_, C_);
  product(Matrix{scores_, n_}.t(), {dout_, C_}, n_, C_, n_, du_, C_, 1);
  product({dout_, C_}, Matrix{u_, C_}.t(), n_, n_, C_, dscores_, n_);
  for (std::int64_t i = 0; i < n_; ++i) {
    for (std::int64_t j = 0; j < i; ++j) scores_[i * n_ + j] *= dscores_[i * n_ + j];
  }
  decay(dscores_);
  T *const dq = to.q.at(begin_), *const dk = to.k.at(begin_);
  product({dscores_, n_}, rows(in.k), n_, A_, n_, dq, to.q.stride, 1);
  product(Matrix{dscores_, n_}.t(), rows(in.q), n_, A_, n_, dk, to.k.stride, 1);
  product({dout_, C_}, Matrix{state, C_}.t(), n_, A_, C_, keys_, A_);
  for (std::int64_t i = 0; i < n_; ++i) {
    add_scaled(fall_[i], keys_ + i * A_, A_, to.q.at(begin_ + i));
    dfall_[i] = fall_[i] * dot(keys_ + i * A_, in.q.at(begin_ + i), A_);
  }
  product({u_, C_}, Matrix{dstate, C_}.t(), n_, A_, C_, keys_, A_);
  for (std::int64_t i = 0; i < n_; ++i) {
    add_scaled(rest_[i], keys_ + i * A_, A_, to.k.at(begin_ + i));
    drest_[i] = rest_[i] * dot(keys_ + i * A_, in.k.at(begin_ + i), A_);
  }
  dlast_ = fall_[n_ - 1] * dot(dstate, state, A_ * C_);
}

// From U, or from the right side and L, to V, β, K and S.
template <class T>
void StateChunk<T>::state_back(const Inputs& in, const T* state, T* dstate, const Gradients& to) {
  scale(fall_[n_ - 1], dstate, A_ * C_);
  scale_rows(fall_, dout_, C_);
  product(rows(in.q).t(), {dout_, C_}, A_, C_, n_, dstate, C_, 1);
  if (!corrects_) {
    values_back(in, to);
    return;
  }
  right_side_back(in, to);
  lower_back(in, to);
  product({du_, C_}, Matrix{state, C_}.t(), n_, A_, C_, to.k.at(begin_), to.k.stride, 1, -1);
  product(rows(in.k).t(), {du_, C_}, A_, C_, n_, dstate, C_, 1, -1);
}

template <class T>
void StateChunk<T>::values_back(const Inputs& in, const Gradients& to) {
  for (std::int64_t i = 0; i < n_; ++i) {
    const T beta = *in.beta.at(begin_ + i), *const du = du_ + i * C_;
    T* const dv = to.v.at(begin_ + i);
    *to.beta.at(begin_ + i) = dot(du, in.v.at(begin_ + i), C_);
    for (std::int64_t c = 0; c < C_; ++c) dv[c] = beta * du[c];
  }
}

// Leaves in du_ the gradient of K·S, with its sign turned.
template <class T>
void StateChunk<T>::right_side_back(const Inputs& in, const Gradients& to) {
  for (std::int64_t i = 0; i < n_; ++i) {
    const T beta = *in.beta.at(begin_ + i);
    const T *const v = in.v.at(begin_ + i), *const read = read_ + i * C_;
    T *const w = du_ + i * C_, *const dv = to.v.at(begin_ + i);
    const T of_read = fall_[i] * dot(w, read, C_);
    *to.beta.at(begin_ + i) = dot(w, v, C_) - of_read;
    dfall_[i] -= beta * of_read;
    for (std::int64_t c = 0; c < C_; ++c) {
      dv[c] = beta * w[c];
      w[c] *= fall_[i] * beta;
    }
  }
}

// Adds to scores_ what D's exponents get from L.
template <class T>
void StateChunk<T>::lower_back(const Inputs& in, const Gradients& to) {
  for (std::int64_t i = 0; i < n_; ++i) {
    const T beta = *in.beta.at(begin_ + i);
    T *const row = dlower_ + i * n_, dbeta = 0;
    for (std::int64_t j = 0; j < i; ++j) {
      const T decay = decay_[i * n_ + j];
      scores_[i * n_ + j] += row[j] * lower_[i * n_ + j];
      dbeta += row[j] * overlap_[i * n_ + j] * decay;
      row[j] *= beta * decay;
    }
    *to.beta.at(begin_ + i) += dbeta;
    std::fill(row + i, row + n_, T(0));
  }
  T* const dk = to.k.at(begin_);
  const Matrix doverlap{dlower_, n_};
  product(doverlap, rows(in.k), n_, A_, n_, dk, to.k.stride, 1);
  product(doverlap.t(), rows(in.k), n_, A_, n_, dk, to.k.stride, 1);
}

}  // namespace tapegrad
