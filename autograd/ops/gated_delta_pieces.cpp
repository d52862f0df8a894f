#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tapegrad/autograd/gated_delta_states.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// One head at one row. `change` is room for C numbers.
template <class T>
struct DeltaStep {
  std::int64_t A, C;
  const T *q, *k, *v;
  T fall, beta, scale;

  void operator()(T* __restrict state, T* __restrict change, T* __restrict out) const {
    std::fill_n(change, C, T(0));
    for (std::int64_t a = 0; a < A; ++a) {
      T* __restrict row = state + a * C;
      for (std::int64_t c = 0; c < C; ++c) {
        row[c] *= fall;
        change[c] += k[a] * row[c];
      }
    }
    for (std::int64_t c = 0; c < C; ++c) change[c] = beta * (v[c] - change[c]);
    std::fill_n(out, C, T(0));
    for (std::int64_t a = 0; a < A; ++a) {
      T* __restrict row = state + a * C;
      for (std::int64_t c = 0; c < C; ++c) {
        row[c] += k[a] * change[c];
        out[c] += q[a] * row[c];
      }
    }
    for (std::int64_t c = 0; c < C; ++c) out[c] *= scale;
  }
};

template <class T>
struct PieceRunner {
  const T *q, *k, *v, *g, *beta;
  T* out;
  std::int64_t key_heads, A, heads, C;

  // Of one head. Rows of a sequence follow each other, so that one thread takes all of them.
  void run(DeltaPiece& piece, std::int64_t head, T* state, T* change) const {
    const std::int64_t size = A * C, of_keys = head / (heads / key_heads);
    if (piece.state.defined()) {
      std::copy_n(piece.state.data<T>() + head * size, size, state);
    } else {
      std::fill_n(state, size, T(0));
    }
    std::size_t next = 0;
    for (std::int64_t row = piece.begin; row < piece.end; ++row) {
      const std::int64_t key = (row * key_heads + of_keys) * A, at = row * heads + head;
      const DeltaStep<T> step{A,          C,
                              q + key,    k + key,
                              v + at * C, std::exp(g[at]),
                              beta[at],   static_cast<T>(1 / std::sqrt(static_cast<double>(A)))};
      step(state, change, out + at * C);
      if (next == piece.keep.size() || piece.keep[next] != row) continue;
      std::copy_n(state, size, piece.kept[next++].template mutable_data<T>() + head * size);
    }
  }
};

void check_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                  const Tensor& beta) {
  const std::int64_t N = v.rank() == 3 ? v.dim(0) : 0;
  check(v.rank() == 3 && k.rank() == 3 && q.shape() == k.shape() && k.dim(0) == N && k.dim(1) > 0 &&
            v.dim(1) % k.dim(1) == 0 && g.shape() == Shape{N, v.dim(1)} &&
            beta.shape() == g.shape(),
        "[gated_delta_rule_pieces] q {}, k {}, v {}, g {} and beta {} do not fit", q.shape(),
        k.shape(), v.shape(), g.shape(), beta.shape());
  check_untracked("gated_delta_rule_pieces", "q", q);
  check_untracked("gated_delta_rule_pieces", "k", k);
  check_untracked("gated_delta_rule_pieces", "v", v);
  check_untracked("gated_delta_rule_pieces", "g", g);
  check_untracked("gated_delta_rule_pieces", "beta", beta);
  for (const Tensor* x : {&q, &k, &g, &beta}) {
    check(x->dtype() == v.dtype(), "[gated_delta_rule_pieces] dtypes differ: {} and {}",
          name_of(v.dtype()), name_of(x->dtype()));
  }
}

}  // namespace

Tensor gated_delta_rule_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                               const Tensor& beta, std::span<DeltaPiece> pieces) {
  check_pieces(q, k, v, g, beta);
  const ProfiledOp profiled("gated_delta_rule_pieces", false);
  const std::int64_t A = k.dim(2), heads = v.dim(1), C = v.dim(2);
  for (DeltaPiece& piece : pieces) {
    check(0 <= piece.begin && piece.begin <= piece.end && piece.end <= v.dim(0),
          "[gated_delta_rule_pieces] there are no rows {} to {} of {}", piece.begin, piece.end,
          v.dim(0));
    check(!piece.state.defined() || piece.state.shape() == Shape{heads, A, C},
          "[gated_delta_rule_pieces] a state {} must be {}",
          piece.state.defined() ? piece.state.shape() : Shape{}, Shape{heads, A, C});
    piece.kept.clear();
    std::int64_t before = piece.begin - 1;
    for (const std::int64_t row : piece.keep) {
      check(before < row && row < piece.end,
            "[gated_delta_rule_pieces] rows to keep must ascend from {} to {}, and {} does not",
            piece.begin, piece.end - 1, row);
      before = row;
      piece.kept.push_back(Tensor::empty({heads, A, C}, v.dtype()));
    }
  }
  Tensor y = Tensor::zeros(v.shape(), v.dtype());
  dispatch(v.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const PieceRunner<T> runner{
        q.data<T>(),         k.data<T>(), v.data<T>(), g.data<T>(), beta.data<T>(),
        y.mutable_data<T>(), k.dim(1),    A,           heads,       C};
    const std::int64_t grain = 1 + kElementGrain / (6 * A * C + 1);
    parallel_for(std::ssize(pieces) * heads, grain, [&](std::int64_t begin, std::int64_t end) {
      const Scratch room(static_cast<std::size_t>(A * C + C) * sizeof(T));
      T* const state = static_cast<T*>(room.data());
      for (std::int64_t i = begin; i < end; ++i) {
        runner.run(pieces[static_cast<std::size_t>(i / heads)], i % heads, state, state + A * C);
      }
    });
  });
  return y;
}

}  // namespace tapegrad
