#include "tapegrad/nn/layers/torch_attention.h"

#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad::nn {

TorchAttention::TorchAttention(const Params& p, std::int64_t channels, int heads,
                               const TorchAttentionOptions& options)
    : n_head(heads), dropout(options.dropout) {
  check(heads > 0 && channels > 0 && channels % heads == 0,
        "[TorchAttention] {} heads do not divide {} channels evenly", heads, channels);
  check_numbers("TorchAttentionOptions", {{"dropout", options.dropout, from_to(0, 1)}});
  const std::int64_t kdim = options.kdim.value_or(channels), vdim = options.vdim.value_or(channels);
  // PyTorch draws the output's weight and bias first, and sets the bias to 0 afterwards.
  out_proj = Linear(p / "out_proj", channels, channels, options.bias);
  if (kdim == channels && vdim == channels) {
    in_proj_weight = p.weight("in_proj_weight", {3 * channels, channels}, xavier_uniform());
  } else {
    q_proj_weight = p.weight("q_proj_weight", {channels, channels}, xavier_uniform());
    k_proj_weight = p.weight("k_proj_weight", {channels, kdim}, xavier_uniform());
    v_proj_weight = p.weight("v_proj_weight", {channels, vdim}, xavier_uniform());
  }
  if (!options.bias) return;
  in_proj_bias = p.parameter("in_proj_bias", {3 * channels}, zeros());
  p.redraw(out_proj.bias, zeros());
}

Tensor TorchAttention::part(int part, const Tensor& x) const {
  const auto rows = [&](const Tensor& t) {
    const std::int64_t channels = t.dim(0) / 3;
    return slice(t, 0, part * channels, (part + 1) * channels);
  };
  const Tensor bias = in_proj_bias.defined() ? rows(in_proj_bias) : Tensor();
  if (!in_proj_weight.exists()) {
    return linear(x, part == 0 ? q_proj_weight : part == 1 ? k_proj_weight : v_proj_weight, bias);
  }
  check(in_proj_weight.quantized == nullptr,
        "[TorchAttention] a packed in_proj_weight is for self-attention");
  return linear(x, {rows(in_proj_weight), in_proj_weight.precision}, bias);
}

ScoreOptions TorchAttention::scores_of(const Tensor& query,
                                       const TorchAttentionMasks& masks) const {
  const Tensor& mask = masks.attn_mask;
  if (!mask.defined() || mask.rank() == 2) return {.attn_mask = mask};
  const std::int64_t B = query.dim(0);
  check(mask.rank() == 3 && mask.dim(0) == B * n_head,
        "[TorchAttention] attn_mask must be (T, S) or (B·H, T, S) with B·H = {}, not {}",
        B * n_head, mask.shape());
  return {.attn_mask = reshape(mask, {B, n_head, mask.dim(1), mask.dim(2)})};
}

Tensor TorchAttention::operator()(const Tensor& x, Rng* rng,
                                  const TorchAttentionMasks& masks) const {
  return (*this)(x, x, x, rng, masks);
}

Tensor TorchAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                  Rng* rng, const TorchAttentionMasks& masks) const {
  const AttentionOptions options{.causal = masks.is_causal,
                                 .dropout = dropout,
                                 .rng = rng,
                                 .key_padding_mask = masks.key_padding_mask,
                                 .scores = scores_of(query, masks)};
  const bool is_self = query.id() == key.id() && key.id() == value.id();
  if (is_self && in_proj_weight.exists()) {
    return out_proj(attention(linear(query, in_proj_weight, in_proj_bias), n_head, options));
  }
  return out_proj(attention(part(0, query), part(1, key), part(2, value), n_head, options));
}

Tensor TorchAttention::weights(const Tensor& query, const Tensor& key,
                               const TorchAttentionMasks& masks) const {
  return attention_weights(part(0, query), part(1, key), n_head, masks.is_causal,
                           masks.key_padding_mask, scores_of(query, masks));
}

}  // namespace tapegrad::nn
