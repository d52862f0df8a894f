#include "tapegrad/autograd/ops/internal/state_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tapegrad/autograd/kernels/internal/state_chunk_backward.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

enum : std::size_t { kQ, kK, kV, kG, kBeta };  // inputs, in this order

struct Sizes {
  std::int64_t batch, positions, key_heads, key_size, heads, value_size;
  StateRule rule;

  Sizes(Inputs in, const StateRule& rule)
      : batch(in[kV].dim(0)),
        positions(in[kV].dim(1)),
        key_heads(in[kK].dim(2)),
        key_size(in[kK].dim(3)),
        heads(in[kV].dim(2)),
        value_size(in[kV].dim(3)),
        rule(rule) {}
  std::int64_t group() const { return heads / key_heads; }
  std::int64_t state() const { return key_size * value_size; }
  double scale() const { return rule.scales ? 1 / std::sqrt(static_cast<double>(key_size)) : 1; }
  template <class T>
  StateChunk<T> chunk() const {
    return {key_size, value_size, static_cast<T>(scale()), rule.corrects};
  }
};

template <class T>
StateRows<T> rows_of(T* data, std::int64_t batch_row, std::int64_t positions, std::int64_t heads,
                     std::int64_t size, std::int64_t head) {
  return {data + (batch_row * positions * heads + head) * size, heads * size};
}

// Chunks begin where documents do, so that a document has the bits that it has alone. Those in the
// midst of a document begin at least one length of a chunk behind each other, and behind the
// beginning of a row: chunk begin / length − 1 of the states that a forward keeps is of no other.
template <class T>
struct Heads {
  static constexpr std::int64_t kLength = StateChunk<T>::kPositions;
  Sizes sizes;
  typename StateChunk<T>::Inputs inputs;
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
void run_forward(const Heads<T>& head, StateChunk<T>& chunk, T* state, T* kept,
                 const StateRows<T>& out) {
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

FusedOp::Output forward(const StateRule& rule, Inputs in, const Needs& needs,
                        const Tensor& starts) {
  const Sizes s(in, rule);
  const DType dtype = in[kV].dtype();
  const bool keeps = std::any_of(needs.begin(), needs.end(), [](auto need) { return need != 0; });
  Tensor y = Tensor::empty(in[kV].shape(), dtype), states;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t kept = Heads<T>::kept_states(s.positions);
    if (keeps) states = Tensor::empty({s.batch * s.heads, kept * s.state()}, dtype);
    T *const to = y.mutable_data<T>(), *const all = keeps ? states.mutable_data<T>() : nullptr;
    parallel_for(s.batch * s.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      auto chunk = s.chunk<T>();
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
void run_back(const Heads<T>& head, StateChunk<T>& chunk, const T* zeros, const T* kept, T* dstate,
              const StateRows<const T>& dy, const typename StateChunk<T>::Gradients& to) {
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

// Heads of values that share one of keys add to its gradients. They are cut into shares, as many as
// give work to some threads whatever the batch is, whose sums are added in their order.
struct Shares {
  static constexpr std::int64_t kMost = 8;
  explicit Shares(const Sizes& s)
      : group(s.group()), of_group(std::clamp<std::int64_t>(kMost / s.key_heads, 1, group)) {}
  std::int64_t group, of_group;
  std::int64_t begin(std::int64_t share) const { return share * group / of_group; }

  Tensor room(const Tensor& x) const {
    return Tensor::zeros(x.shape().inserted(0, of_group), x.dtype());
  }
  Tensor sum_of(const Tensor& parts) const {
    return of_group == 1 ? select(parts, 0, 0) : sum(parts, {0});
  }
};

Grads backward(const StateRule& rule, const Tensor& dy, Inputs in, Inputs notes,
               const Tensor& starts) {
  const Sizes s(in, rule);
  const Shares shares(s);
  Grads grads{shares.room(in[kQ]), shares.room(in[kK])};
  for (const std::size_t i : {kV, kG, kBeta}) {
    grads.push_back(Tensor::zeros(in[i].shape(), in[i].dtype()));
  }
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T*> to;
    for (Tensor& grad : grads) to.push_back(grad.mutable_data<T>());
    const auto run_head = [&](StateChunk<T>& chunk, const T* zeros, T* dstate, std::int64_t b,
                              std::int64_t h, std::int64_t share) {
      const auto rows = [&](std::size_t i, std::int64_t heads, std::int64_t size, std::int64_t at) {
        T* const part = to[i] + (i == kQ || i == kK ? share * in[i].numel() : 0);
        return rows_of(part, b, s.positions, heads, size, at);
      };
      const std::int64_t k = h / s.group();
      run_back<T>(head_of<T>(s, in, starts, b, h), chunk, zeros,
                  notes[0].data<T>() + (b * s.heads + h) * notes[0].dim(1), dstate,
                  rows_of<const T>(dy.data<T>(), b, s.positions, s.heads, s.value_size, h),
                  {rows(kQ, s.key_heads, s.key_size, k), rows(kK, s.key_heads, s.key_size, k),
                   rows(kV, s.heads, s.value_size, h), rows(kG, s.heads, 1, h),
                   rows(kBeta, s.heads, 1, h)});
    };
    const std::int64_t count = s.batch * s.key_heads * shares.of_group;
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      auto chunk = s.chunk<T>();
      const Tensor zeros = Tensor::zeros({s.state()}, dy.dtype());
      Tensor dstate = Tensor::empty({s.state()}, dy.dtype());
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t share = i % shares.of_group, keys = i / shares.of_group;
        const std::int64_t first = keys % s.key_heads * s.group();
        for (std::int64_t h = shares.begin(share); h < shares.begin(share + 1); ++h) {
          run_head(chunk, zeros.data<T>(), dstate.mutable_data<T>(), keys / s.key_heads, first + h,
                   share);
        }
      }
    });
  });
  for (const std::size_t i : {kQ, kK}) grads[i] = shares.sum_of(grads[i]);
  return grads;
}

}  // namespace

Tensor apply_state_rule(const StateRule& rule, const std::vector<Tensor>& in,
                        const Tensor& document_starts) {
  // A copy, so that the caller may change them before backward.
  const Tensor starts = document_starts.defined() ? document_starts.clone() : Tensor();
  return apply_fused(
      in, {.name = rule.name,
           .backward_name = rule.backward_name,
           .forward = [=](Inputs x, const Needs& needs) { return forward(rule, x, needs, starts); },
           .backward = [=](const Tensor& dy, Inputs x, Inputs notes,
                           const Needs&) { return backward(rule, dy, x, notes, starts); },
           .reference = [=](Inputs x) { return state_rule_steps(rule, x, starts); }});
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

Tensor state_rule_steps(const StateRule& rule, Inputs in, const Tensor& starts) {
  const Sizes s(in, rule);
  const Tensor &q = in[kQ], &k = in[kK], &v = in[kV], &g = in[kG], &beta = in[kBeta];
  if (s.positions == 0) return v * 1.0;
  Tensor state = Tensor::zeros({s.batch, s.heads, s.key_size, s.value_size}, v.dtype());
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < s.positions; ++t) {
    const Tensor query = unsqueeze(for_heads(select(q, 1, t), s.heads), 3);
    const Tensor key = unsqueeze(for_heads(select(k, 1, t), s.heads), 3);
    const Tensor fall = unsqueeze(unsqueeze(exp(select(g, 1, t)), 2), 3);
    state = state * goes_on(starts, v, t) * fall;
    Tensor value = select(v, 1, t);
    if (rule.corrects) value = value - sum(state * key, {2});
    state = state + key * unsqueeze(unsqueeze(select(beta, 1, t), 2) * value, 2);
    outputs.push_back(sum(state * query, {2}) * s.scale());
  }
  return stack(outputs, 1);
}

}  // namespace tapegrad
