// Attention composed of other ops: the reference of the fused op, and weights to look at.

#include <limits>

#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/tape.h"

namespace tapegrad {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The keys (…, Tk) that the queries (…, Tq, …) do not see, as a u8 mask of `shape` (B, 1, Tq, Tk);
// undefined if they see all.
Tensor hidden_keys(const Shape& shape, bool causal, const ScoreOptions& scores,
                   const Tensor& padding) {
  if (!causal && !padding.defined()) return {};
  const std::int64_t B = shape[0], Tq = shape[2], Tk = shape[3];
  check_padding(padding, B, Tk);
  Tensor hidden = Tensor::zeros(shape, DType::u8);
  auto* h = hidden.mutable_data<std::uint8_t>();
  const Tensor& documents = scores.document_starts;
  const auto* starts = documents.defined() ? documents.data<std::int32_t>() : nullptr;
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t i = 0; i < Tq; ++i) {
      for (std::int64_t j = 0; j < Tk; ++j, ++h) {
        const bool is_padding = padding.defined() && padding.data<std::uint8_t>()[b * Tk + j] != 0;
        const bool is_far = scores.window > 0 && i - j >= scores.window;
        const bool is_elsewhere = starts != nullptr && j < starts[b * Tq + i];
        *h = is_padding || (causal && j > i) || is_far || is_elsewhere ? 1 : 0;
      }
    }
  }
  return hidden;
}

// 1 for each row of scores (…, Tk) that are all −∞, as u8 (…, 1).
Tensor rows_without_score(const Tensor& scores) {
  const TapePause pause;
  const Tensor none = eq(scores, kMinusInfinity);
  return eq(sum(none.to(scores.dtype()), {-1}, true), static_cast<double>(scores.dim(-1)));
}

// The softmax of scores (B, H, Tq, Tk) and a sink of each head, without the sink's share.
Tensor softmax_beside(const Tensor& scores, const Tensor& sinks) {
  if (!sinks.defined()) return softmax(scores);
  const Tensor column =
      broadcast_to(reshape(sinks, {sinks.numel(), 1, 1}), scores.shape().with(-1, 1));
  return slice(softmax(concat({scores, column}, -1)), -1, 0, scores.dim(-1));
}

// x (B, T, heads·D) → (B, n_head, T, D), where `shared` heads of the result are one head of x.
Tensor split_heads(const Tensor& x, std::int64_t n_head, std::int64_t shared) {
  const std::int64_t B = x.dim(0), T = x.dim(1), own = n_head / shared, D = x.dim(2) / own;
  const Tensor apart = permute(reshape(x, {B, T, own, 1, D}), {0, 2, 3, 1, 4});
  return reshape(broadcast_to(apart, {B, own, shared, T, D}), {B, n_head, T, D});
}

}  // namespace

Tensor attention_weights(const Tensor& q, const Tensor& k, int n_head, bool causal,
                         const Tensor& key_padding_mask, const ScoreOptions& options) {
  const std::int64_t group = group_size(q.shape(), k.shape(), k.shape(), n_head), Tq = q.dim(1),
                     Tk = k.dim(1);
  check_scores(options, causal, q.dim(0), Tq);
  check_sinks(options.sinks, n_head, q.dtype());
  check(!causal || Tq == Tk, "[attention] causal needs as many queries as keys, not {} and {}", Tq,
        Tk);
  Tensor scores =
      matmul(split_heads(q, n_head, 1), split_heads(k, n_head, group), {.transpose_b = true}) *
      scale_of(options, q.dim(2) / n_head);
  scores = softcap(scores, options.softcap);
  if (const Tensor& mask = options.attn_mask; mask.defined()) {
    check_attn_mask(mask, scores);
    scores = is_mask(mask.dtype()) ? masked_fill(scores, mask, kMinusInfinity) : scores + mask;
  }
  const Tensor hidden = hidden_keys({q.dim(0), 1, Tq, Tk}, causal, options, key_padding_mask);
  if (hidden.defined()) scores = masked_fill(scores, hidden, kMinusInfinity);
  // The softmax of such a row would be NaN, and so would its gradient.
  const Tensor blind = rows_without_score(scores);
  return masked_fill(softmax_beside(masked_fill(scores, blind, 0), options.sinks), blind, 0);
}

Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                           bool causal, const KeepMask& keep, const Tensor& key_padding_mask,
                           const ScoreOptions& scores) {
  const std::int64_t group = group_size(q.shape(), k.shape(), v.shape(), n_head);
  Tensor weights = attention_weights(q, k, n_head, causal, key_padding_mask, scores);
  if (keep.drops()) {
    const Tensor kept = keep.to_tensor(weights.shape()).to(weights.dtype());
    weights = weights * (kept * keep.scale(weights.dtype()));
  }
  const Tensor y = matmul(weights, split_heads(v, n_head, group));
  return reshape(permute(y, {0, 2, 1, 3}), q.shape());
}

}  // namespace tapegrad
