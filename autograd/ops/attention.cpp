#include "tapegrad/autograd/kernels/attention_tiles.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/fused.h"

namespace tapegrad {
namespace {

// (B, T, C) as rows of heads.
template <class T>
HeadRows<const T> rows_of(const Tensor& x) {
  return {x.data<T>(), x.dim(2), x.dim(1) * x.dim(2)};
}
template <class T>
HeadRows<T> rows_of(Tensor& x) {
  return {x.mutable_data<T>(), x.dim(2), x.dim(1) * x.dim(2)};
}
// Part i (q, k or v) of packed rows (B, T, 3C).
template <class T>
HeadRows<T> part_of(const HeadRows<T>& packed, std::int64_t i) {
  return {packed.data + i * packed.row / 3, packed.row, packed.batch};
}

struct Call {
  AttentionSizes size;
  KeepMask keep;
  Tensor padding;  // (B, Tk) u8, or undefined

  template <class T>
  AttentionKernel<T> kernel(HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v) const {
    return {size, q, k, v, keep, padding.defined() ? padding.data<std::uint8_t>() : nullptr};
  }
  Tensor empty_lse(DType dtype) const { return Tensor::empty({size.B, size.H, size.Tq}, dtype); }
};

void check_padding(const Tensor& mask, std::int64_t B, std::int64_t Tk) {
  check(!mask.defined() || (mask.shape() == Shape{B, Tk} && mask.dtype() == DType::u8),
        "[attention] key_padding_mask must be u8 of {}, not {} of {}", Shape{B, Tk},
        mask.defined() ? name_of(mask.dtype()) : "", mask.defined() ? mask.shape() : Shape{});
}

Call make_call(const Shape& q, std::int64_t C, std::int64_t Tk, int n_head,
               const AttentionOptions& options) {
  check(n_head > 0 && C % n_head == 0, "[attention] {} channels are not divisible by n_head {}", C,
        n_head);
  check(!options.causal || q[1] == Tk,
        "[attention] causal attention needs as many queries as keys, not {} and {}", q[1], Tk);
  check(options.dropout >= 0 && options.dropout <= 1,
        "[attention] dropout must be from 0 to 1, not {}", options.dropout);
  check_padding(options.key_padding_mask, q[0], Tk);
  Call call{{q[0], q[1], Tk, n_head, C / n_head, options.causal}, {}, {}};
  // A copy, which is still this call's mask when backward comes.
  if (options.key_padding_mask.defined()) call.padding = options.key_padding_mask.clone();
  if (options.rng != nullptr) {
    call.keep = KeepMask(*options.rng, q[0] * n_head * q[1] * Tk, options.dropout);
  }
  return call;
}

Tensor reference_of(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention_reference(q, k, v, static_cast<int>(call.size.H), call.size.causal, call.keep,
                             call.padding);
}

// The keys (…, Tk) that the queries (…, Tq, …) do not see, as a u8 mask of `shape` (B, 1, Tq, Tk);
// undefined if they see all.
Tensor hidden_keys(const Shape& shape, bool causal, const Tensor& padding) {
  if (!causal && !padding.defined()) return {};
  const std::int64_t B = shape[0], Tq = shape[2], Tk = shape[3];
  check_padding(padding, B, Tk);
  Tensor hidden = Tensor::zeros(shape, DType::u8);
  auto* h = hidden.mutable_data<std::uint8_t>();
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t i = 0; i < Tq; ++i) {
      for (std::int64_t j = 0; j < Tk; ++j, ++h) {
        const bool is_padding = padding.defined() && padding.data<std::uint8_t>()[b * Tk + j] != 0;
        *h = is_padding || (causal && j > i) ? 1 : 0;
      }
    }
  }
  return hidden;
}

Tensor packed_forward(const Call& call, const Tensor& qkv, Tensor& lse) {
  Tensor out = Tensor::empty(qkv.shape().with(2, qkv.dim(2) / 3), qkv.dtype());
  dispatch(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto rows = rows_of<T>(qkv);
    call.kernel<T>(part_of(rows, 0), part_of(rows, 1), part_of(rows, 2))
        .forward(rows_of<T>(out), lse.mutable_data<T>());
  });
  return out;
}

Tensor packed_backward(const Call& call, const Tensor& dy, const Tensor& qkv, const Tensor& lse) {
  Tensor dqkv = Tensor::empty(qkv.shape(), qkv.dtype());
  dispatch(dqkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto rows = rows_of<T>(qkv);
    const auto drows = rows_of<T>(dqkv);
    call.kernel<T>(part_of(rows, 0), part_of(rows, 1), part_of(rows, 2))
        .backward(rows_of<T>(dy), lse.data<T>(), part_of(drows, 0), part_of(drows, 1),
                  part_of(drows, 2));
  });
  return dqkv;
}

Tensor separate_forward(const Call& call, Inputs qkv, Tensor& lse) {
  Tensor out = Tensor::empty(qkv[0].shape(), qkv[0].dtype());
  dispatch(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    call.kernel<T>(rows_of<T>(qkv[0]), rows_of<T>(qkv[1]), rows_of<T>(qkv[2]))
        .forward(rows_of<T>(out), lse.mutable_data<T>());
  });
  return out;
}

std::vector<Tensor> separate_backward(const Call& call, const Tensor& dy, Inputs qkv,
                                      const Tensor& lse) {
  std::vector<Tensor> grads;
  for (const Tensor& t : qkv) {
    // Keys that no query meets get zeros, and nothing else writes them.
    grads.push_back(call.size.Tq == 0 ? Tensor::zeros(t.shape(), t.dtype())
                                      : Tensor::empty(t.shape(), t.dtype()));
  }
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    call.kernel<T>(rows_of<T>(qkv[0]), rows_of<T>(qkv[1]), rows_of<T>(qkv[2]))
        .backward(rows_of<T>(dy), lse.data<T>(), rows_of<T>(grads[0]), rows_of<T>(grads[1]),
                  rows_of<T>(grads[2]));
  });
  return grads;
}

}  // namespace

Tensor attention(const Tensor& qkv, int n_head, const AttentionOptions& options) {
  check(qkv.rank() == 3 && qkv.dim(2) % 3 == 0, "[attention] qkv must be (B, T, 3C), not {}",
        qkv.shape());
  const Call call = make_call(qkv.shape(), qkv.dim(2) / 3, qkv.dim(1), n_head, options);
  const auto reference = [call](Inputs in) {
    const std::int64_t C = in[0].dim(2) / 3;
    const auto parts = split(in[0], {C, C, C}, 2);
    return reference_of(call, parts[0], parts[1], parts[2]);
  };
  return apply(
      "attention_qkv", {qkv},
      [call](Inputs in, Saved& saved) {
        Tensor lse = call.empty_lse(in[0].dtype());
        Tensor out = packed_forward(call, saved.keep(in[0]), lse);
        saved.keep(lse);
        saved.keep(call.keep.stored());
        return out;
      },
      [call, reference](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const auto backward = [call, lse = saved[1], of = saved[0].id()](Inputs in, Saved& kept) {
          for (const Tensor& t : in) kept.keep(t);
          // Run again on other inputs, as by the gradient checker, it needs their log-sum-exps.
          Tensor sums = in[1].id() == of ? lse : call.empty_lse(lse.dtype());
          if (in[1].id() != of) packed_forward(call, in[1], sums);
          return std::vector{packed_backward(call, in[0], in[1], sums)};
        };
        return apply_many("attention_qkv_backward", std::vector{dy, saved[0]}, backward,
                          through_reference(reference));
      });
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                 const AttentionOptions& options) {
  check(q.rank() == 3 && k.rank() == 3 && k.shape() == v.shape() && q.dim(0) == k.dim(0) &&
            q.dim(2) == k.dim(2),
        "[attention] q {} does not fit k {} and v {}", q.shape(), k.shape(), v.shape());
  const Call call = make_call(q.shape(), q.dim(2), k.dim(1), n_head, options);
  return apply(
      "attention", {q, k, v},
      [call](Inputs in, Saved& saved) {
        Tensor lse = call.empty_lse(in[0].dtype());
        for (const Tensor& t : in) saved.keep(t);
        Tensor out = separate_forward(call, in, lse);
        saved.keep(lse);
        saved.keep(call.keep.stored());
        return out;
      },
      [call](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const auto backward = [call, lse = saved[3], q_id = saved[0].id(), k_id = saved[1].id()](
                                  Inputs in, Saved& kept) {
          for (const Tensor& t : in) kept.keep(t);
          const bool known = in[1].id() == q_id && in[2].id() == k_id;
          Tensor sums = known ? lse : call.empty_lse(lse.dtype());
          if (!known) separate_forward(call, in.subspan(1), sums);
          return separate_backward(call, in[0], in.subspan(1), sums);
        };
        const auto reference = [call](Inputs in) {
          return reference_of(call, in[0], in[1], in[2]);
        };
        return apply_many("attention_backward", std::vector{dy, saved[0], saved[1], saved[2]},
                          backward, through_reference(reference));
      });
}

Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                           bool causal, const KeepMask& keep, const Tensor& key_padding_mask) {
  const std::int64_t B = q.dim(0), C = q.dim(2), Tq = q.dim(1), Tk = k.dim(1);
  check(n_head > 0 && C % n_head == 0, "[attention] {} channels are not divisible by n_head {}", C,
        n_head);
  const std::int64_t D = C / n_head;
  const auto heads = [&](const Tensor& x) {
    return permute(reshape(x, {B, x.dim(1), n_head, D}), {0, 2, 1, 3});
  };
  Tensor scores =
      matmul(heads(q), heads(k), {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(D)));
  const Tensor hidden = hidden_keys({B, 1, Tq, Tk}, causal, key_padding_mask);
  // Not −∞, of which a row without a visible key would make NaN, and its gradient, too.
  if (hidden.defined()) scores = masked_fill(scores, hidden, -1e30);
  Tensor weights = softmax(scores);
  if (key_padding_mask.defined()) weights = masked_fill(weights, hidden, 0);
  if (keep.drops()) {
    const Tensor kept = keep.to_tensor({B, n_head, Tq, Tk}).to(weights.dtype());
    weights = weights * (kept * keep.scale());
  }
  return reshape(permute(matmul(weights, heads(v)), {0, 2, 1, 3}), {B, Tq, C});
}

}  // namespace tapegrad
