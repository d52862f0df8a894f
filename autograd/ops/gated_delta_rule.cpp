#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tapegrad/autograd/kernels/internal/delta_chunk.h"
#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

enum : std::size_t { kQ, kK, kV, kG, kBeta };  // inputs, in this order

struct Sizes {
  std::int64_t batch, positions, key_heads, key_size, heads, value_size;

  explicit Sizes(Inputs in)
      : batch(in[kV].dim(0)),
        positions(in[kV].dim(1)),
        key_heads(in[kK].dim(2)),
        key_size(in[kK].dim(3)),
        heads(in[kV].dim(2)),
        value_size(in[kV].dim(3)) {}
  std::int64_t group() const { return heads / key_heads; }
  std::int64_t state() const { return key_size * value_size; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(key_size)); }
};

template <class T>
DeltaRows<T> rows_of(T* data, std::int64_t batch_row, std::int64_t positions, std::int64_t heads,
                     std::int64_t size, std::int64_t head) {
  return {data + (batch_row * positions * heads + head) * size, heads * size};
}

// Chunks begin where documents do, so that a document has the bits that it has alone. Those in the
// midst of a document begin at least one length of a chunk behind each other, and behind the
// beginning of a row: chunk begin / length − 1 of the states that a forward keeps is of no other.
template <class T>
struct Heads {
  static constexpr std::int64_t kLength = DeltaChunk<T>::kPositions;
  Sizes sizes;
  typename DeltaChunk<T>::Inputs inputs;
  const std::int32_t* starts;  // of this row of the batch, or null

  static std::int64_t kept_states(std::int64_t positions) {
    return std::max<std::int64_t>(positions - 1, 0) / kLength;
  }
  bool begins(std::int64_t t) const { return starts == nullptr ? t == 0 : starts[t] == t; }
  std::int64_t end_of_chunk(std::int64_t begin) const {
    std::int64_t end = begin + 1;
    const std::int64_t most = std::min(begin + kLength, sizes.positions);
    while (end < most && !begins(end)) ++end;
    return end;
  }
  std::int64_t kept_at(std::int64_t begin) const { return (begin / kLength - 1) * sizes.state(); }
};

template <class T>
Heads<T> head_of(const Sizes& s, Inputs in, const Tensor& starts, std::int64_t b,
                 std::int64_t head) {
  const auto rows = [&](std::size_t i, std::int64_t heads, std::int64_t size, std::int64_t h) {
    return rows_of<const T>(in[i].data<T>(), b, s.positions, heads, size, h);
  };
  const std::int64_t of_keys = head / s.group();
  return {s,
          {rows(kQ, s.key_heads, s.key_size, of_keys), rows(kK, s.key_heads, s.key_size, of_keys),
           rows(kV, s.heads, s.value_size, head), rows(kG, s.heads, 1, head),
           rows(kBeta, s.heads, 1, head)},
          starts.defined() ? starts.data<std::int32_t>() + b * s.positions : nullptr};
}

template <class T>
void run_forward(const Heads<T>& head, DeltaChunk<T>& chunk, T* state, T* kept,
                 const DeltaRows<T>& out) {
  const std::int64_t size = head.sizes.state();
  for (std::int64_t begin = 0, end = 0; begin < head.sizes.positions; begin = end) {
    end = head.end_of_chunk(begin);
    if (head.begins(begin)) {
      std::fill_n(state, size, T(0));
    } else if (kept != nullptr) {
      std::copy_n(state, size, kept + head.kept_at(begin));
    }
    chunk.forward(head.inputs, begin, end - begin, state, out);
  }
}

FusedOp::Output forward(Inputs in, const Needs& needs, const Tensor& starts) {
  const Sizes s(in);
  const DType dtype = in[kV].dtype();
  const bool keeps = std::any_of(needs.begin(), needs.end(), [](auto need) { return need != 0; });
  Tensor y = Tensor::empty(in[kV].shape(), dtype), states;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t kept = Heads<T>::kept_states(s.positions);
    if (keeps) states = Tensor::empty({s.batch * s.heads, kept * s.state()}, dtype);
    T *const to = y.mutable_data<T>(), *const all = keeps ? states.mutable_data<T>() : nullptr;
    parallel_for(s.batch * s.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      DeltaChunk<T> chunk(s.key_size, s.value_size, static_cast<T>(s.scale()));
      const Scratch state(static_cast<std::size_t>(s.state()) * sizeof(T));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / s.heads, h = i % s.heads;
        run_forward(head_of<T>(s, in, starts, b, h), chunk, static_cast<T*>(state.data()),
                    keeps ? all + i * kept * s.state() : nullptr,
                    rows_of(to, b, s.positions, s.heads, s.value_size, h));
      }
    });
  });
  return {y, {states}};
}

// From the last chunk to the first. A document's first state is zeros, which nothing changes.
template <class T>
void run_back(const Heads<T>& head, DeltaChunk<T>& chunk, const T* zeros, const T* kept, T* dstate,
              const DeltaRows<const T>& dy, const typename DeltaChunk<T>::Gradients& to) {
  std::vector<std::int64_t> begins;
  for (std::int64_t t = 0; t < head.sizes.positions; t = head.end_of_chunk(t)) begins.push_back(t);
  std::int64_t end = head.sizes.positions;
  for (std::size_t i = begins.size(); i-- > 0;) {
    const std::int64_t begin = begins[i];
    if (end == head.sizes.positions || head.begins(end)) {
      std::fill_n(dstate, head.sizes.state(), T(0));
    }
    const T* const state = head.begins(begin) ? zeros : kept + head.kept_at(begin);
    chunk.backward(head.inputs, begin, end - begin, state, dy, dstate, to);
    end = begin;
  }
}

// Heads of values that share one of keys follow each other on one thread.
Grads backward(const Tensor& dy, Inputs in, Inputs notes, const Tensor& starts) {
  const Sizes s(in);
  Grads grads;
  for (const Tensor& x : in) grads.push_back(Tensor::zeros(x.shape(), x.dtype()));
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T*> to;
    for (Tensor& grad : grads) to.push_back(grad.mutable_data<T>());
    const auto run_head = [&](DeltaChunk<T>& chunk, const T* zeros, T* dstate, std::int64_t b,
                              std::int64_t h) {
      const auto rows = [&](std::size_t i, std::int64_t heads, std::int64_t size, std::int64_t at) {
        return rows_of(to[i], b, s.positions, heads, size, at);
      };
      const std::int64_t k = h / s.group();
      run_back<T>(head_of<T>(s, in, starts, b, h), chunk, zeros,
                  notes[0].data<T>() + (b * s.heads + h) * notes[0].dim(1), dstate,
                  rows_of<const T>(dy.data<T>(), b, s.positions, s.heads, s.value_size, h),
                  {rows(kQ, s.key_heads, s.key_size, k), rows(kK, s.key_heads, s.key_size, k),
                   rows(kV, s.heads, s.value_size, h), rows(kG, s.heads, 1, h),
                   rows(kBeta, s.heads, 1, h)});
    };
    parallel_for(s.batch * s.key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      DeltaChunk<T> chunk(s.key_size, s.value_size, static_cast<T>(s.scale()));
      const Tensor zeros = Tensor::zeros({s.state()}, dy.dtype());
      Tensor dstate = Tensor::empty({s.state()}, dy.dtype());
      for (std::int64_t i = begin * s.group(); i < end * s.group(); ++i) {
        run_head(chunk, zeros.data<T>(), dstate.mutable_data<T>(), i / s.heads, i % s.heads);
      }
    });
  });
  return grads;
}

void check_inputs(Inputs in, const Tensor& starts) {
  const Tensor &q = in[kQ], &k = in[kK], &v = in[kV], &g = in[kG], &beta = in[kBeta];
  check(v.rank() == 4, "[gated_delta_rule] v must be (B, T, H, C), not {}", v.shape());
  check(k.rank() == 4 && k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) && k.dim(2) > 0 &&
            k.dim(3) > 0 && v.dim(2) % k.dim(2) == 0,
        "[gated_delta_rule] k {} does not fit v {}: as (B, T, K, A) it has the same B and T, and K "
        "divides the number of heads",
        k.shape(), v.shape());
  check(q.shape() == k.shape(), "[gated_delta_rule] q {} is not of k's shape {}", q.shape(),
        k.shape());
  const Shape numbers{v.dim(0), v.dim(1), v.dim(2)};
  check(g.shape() == numbers && beta.shape() == numbers,
        "[gated_delta_rule] g {} and beta {} must be {}", g.shape(), beta.shape(), numbers);
  for (const Tensor& x : in) {
    check(x.dtype() == v.dtype(), "[gated_delta_rule] dtypes differ: {} and {}", name_of(v.dtype()),
          name_of(x.dtype()));
  }
  check_document_starts("gated_delta_rule", starts, v.dim(0), v.dim(1));
}

}  // namespace

Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                        const Tensor& beta, const Tensor& document_starts) {
  const std::vector<Tensor> in{q, k, v, g, beta};
  check_inputs(in, document_starts);
  // A copy, so that the caller may change them before backward.
  const Tensor starts = document_starts.defined() ? document_starts.clone() : Tensor();
  return apply_fused(
      in, {.name = "gated_delta_rule",
           .backward_name = "gated_delta_rule_backward",
           .forward = [=](Inputs x, const Needs& needs) { return forward(x, needs, starts); },
           .backward = [=](const Tensor& dy, Inputs x, Inputs notes,
                           const Needs&) { return backward(dy, x, notes, starts); },
           .reference =
               [=](Inputs x) {
                 return gated_delta_rule_steps(x[kQ], x[kK], x[kV], x[kG], x[kBeta], starts);
               }});
}

namespace {

// What each head of values has of the heads of keys: (B, K, A) → (B, H, A).
Tensor for_heads(const Tensor& x, std::int64_t heads) {
  const Shape wide{x.dim(0), x.dim(1), heads / x.dim(1), x.dim(2)};
  return reshape(broadcast_to(unsqueeze(x, 2), wide), {x.dim(0), heads, x.dim(2)});
}

// 1 (B, 1, 1, 1), or 0 where a document begins at position t.
Tensor goes_on(const Tensor& starts, const Tensor& like, std::int64_t t) {
  std::vector<double> factors;
  for (std::int64_t b = 0; b < like.dim(0); ++b) {
    const bool begins = starts.defined() && starts.data<std::int32_t>()[b * like.dim(1) + t] == t;
    factors.push_back(begins ? 0 : 1);
  }
  return Tensor::from(factors, {like.dim(0), 1, 1, 1}).to(like.dtype());
}

}  // namespace

Tensor gated_delta_rule_steps(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& document_starts) {
  const std::vector<Tensor> in{q, k, v, g, beta};
  check_inputs(in, document_starts);
  const Sizes s(in);
  if (s.positions == 0) return v * 1.0;
  Tensor state = Tensor::zeros({s.batch, s.heads, s.key_size, s.value_size}, v.dtype());
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < s.positions; ++t) {
    const Tensor query = unsqueeze(for_heads(select(q, 1, t), s.heads), 3);
    const Tensor key = unsqueeze(for_heads(select(k, 1, t), s.heads), 3);
    const Tensor fall = unsqueeze(unsqueeze(exp(select(g, 1, t)), 2), 3);
    state = state * goes_on(document_starts, v, t) * fall;
    const Tensor change =
        unsqueeze(select(beta, 1, t), 2) * (select(v, 1, t) - sum(state * key, {2}));
    state = state + key * unsqueeze(change, 2);
    outputs.push_back(sum(state * query, {2}) * s.scale());
  }
  return stack(outputs, 1);
}

}  // namespace tapegrad
