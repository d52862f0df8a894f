#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/state_rule.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// One head at one row. `change` is room for C numbers.
template <class T>
struct StateStep {
  std::int64_t A, C;
  const T *q, *k, *v;
  T fall, beta, scale;
  bool corrects;

  void operator()(T* __restrict state, T* __restrict change, T* __restrict out) const {
    std::fill_n(change, C, T(0));
    for (std::int64_t a = 0; a < A; ++a) {
      T* __restrict row = state + a * C;
      for (std::int64_t c = 0; c < C; ++c) row[c] *= fall;
      if (!corrects) continue;
      for (std::int64_t c = 0; c < C; ++c) change[c] += k[a] * row[c];
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
  StateRule rule;

  // Of one head. Rows of a sequence follow each other, so that one thread takes all of them.
  void run(StatePiece& piece, std::int64_t head, T* state, T* change) const {
    const std::int64_t size = A * C, of_keys = head / (heads / key_heads);
    if (piece.state.defined()) {
      std::copy_n(piece.state.data<T>() + head * size, size, state);
    } else {
      std::fill_n(state, size, T(0));
    }
    std::size_t next = 0;
    const T scale = rule.scales ? static_cast<T>(1 / std::sqrt(static_cast<double>(A))) : T(1);
    for (std::int64_t row = piece.begin; row < piece.end; ++row) {
      const std::int64_t key = (row * key_heads + of_keys) * A, at = row * heads + head;
      const StateStep<T> step{A,        C,     q + key,      k + key, v + at * C, std::exp(g[at]),
                              beta[at], scale, rule.corrects};
      step(state, change, out + at * C);
      if (next == piece.keep.size() || piece.keep[next] != row) continue;
      std::copy_n(state, size, piece.kept[next++].template mutable_data<T>() + head * size);
    }
  }
};

void check_piece(const StateRule& rule, const StatePiece& piece, std::int64_t rows,
                 const Shape& state) {
  check(0 <= piece.begin && piece.begin <= piece.end && piece.end <= rows,
        "[{}_pieces] there are no rows {} to {} of {}", rule.name, piece.begin, piece.end, rows);
  check(!piece.state.defined() || piece.state.shape() == state, "[{}_pieces] a state {} must be {}",
        rule.name, piece.state.defined() ? piece.state.shape() : Shape{}, state);
  std::int64_t before = piece.begin - 1;
  for (const std::int64_t row : piece.keep) {
    check(before < row && row < piece.end,
          "[{}_pieces] rows to keep must ascend from {} to {}, and {} does not", rule.name,
          piece.begin, piece.end - 1, row);
    before = row;
  }
}

// Inputs that are called so by an op, as gradients do not come to them.
void check_tensors(std::string_view op, const Tensor& like,
                   std::initializer_list<std::pair<const char*, const Tensor*>> inputs) {
  for (const auto& [name, x] : inputs) {
    check_untracked(op, name, *x);
    check(x->dtype() == like.dtype(), "[{}] dtypes differ: {} and {}", op, name_of(like.dtype()),
          name_of(x->dtype()));
  }
}

bool keys_fit(const Tensor& q, const Tensor& k, const Tensor& v) {
  return v.rank() == 3 && k.rank() == 3 && q.shape() == k.shape() && k.dim(0) == v.dim(0) &&
         k.dim(1) > 0 && v.dim(1) % k.dim(1) == 0;
}

Tensor run_pieces(const StateRule& rule, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& g, const Tensor& beta, std::span<StatePiece> pieces) {
  const std::int64_t A = k.dim(2), heads = v.dim(1), C = v.dim(2);
  for (StatePiece& piece : pieces) {
    check_piece(rule, piece, v.dim(0), {heads, A, C});
    piece.kept.clear();
    for (std::size_t i = 0; i < piece.keep.size(); ++i) {
      piece.kept.push_back(Tensor::empty({heads, A, C}, v.dtype()));
    }
  }
  Tensor y = Tensor::zeros(v.shape(), v.dtype());
  dispatch(v.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const PieceRunner<T> runner{q.data<T>(),
                                k.data<T>(),
                                v.data<T>(),
                                g.data<T>(),
                                beta.data<T>(),
                                y.mutable_data<T>(),
                                k.dim(1),
                                A,
                                heads,
                                C,
                                rule};
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

}  // namespace

Tensor gated_delta_rule_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                               const Tensor& beta, std::span<StatePiece> pieces) {
  constexpr std::string_view kName = "gated_delta_rule_pieces";
  check(keys_fit(q, k, v) && g.shape() == Shape{v.dim(0), v.dim(1)} && beta.shape() == g.shape(),
        "[{}] q {}, k {}, v {}, g {} and beta {} do not fit", kName, q.shape(), k.shape(),
        v.shape(), g.shape(), beta.shape());
  check_tensors(kName, v, {{"q", &q}, {"k", &k}, {"v", &v}, {"g", &g}, {"beta", &beta}});
  const ProfiledOp profiled(kName, false);
  return run_pieces(kGatedDeltaRule, q, k, v, g, beta, pieces);
}

Tensor state_space_scan_pieces(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                               const Tensor& C, std::span<StatePiece> pieces) {
  constexpr std::string_view kName = "state_space_scan_pieces";
  check(
      keys_fit(C, B, x) && dt.shape() == Shape{x.dim(0), x.dim(1)} && A.shape() == Shape{x.dim(1)},
      "[{}] x {}, dt {}, A {}, B {} and C {} do not fit", kName, x.shape(), dt.shape(), A.shape(),
      B.shape(), C.shape());
  check_tensors(kName, x, {{"x", &x}, {"dt", &dt}, {"A", &A}, {"B", &B}, {"C", &C}});
  const ProfiledOp profiled(kName, false);
  return run_pieces(kStateSpaceScan, C, B, x, dt * A, dt, pieces);
}

}  // namespace tapegrad
