#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

MultiHeadAttention::MultiHeadAttention(const Params& p, std::int64_t channels,
                                       const AttentionConfig& c)
    : config(c) {
  if (c.separate_qkv) {
    W_query = Linear(p / "W_query", channels, channels, c.qkv_bias);
    W_key = Linear(p / "W_key", channels, channels, c.qkv_bias);
    W_value = Linear(p / "W_value", channels, channels, c.qkv_bias);
  } else {
    c_attn = Linear(p / "c_attn", channels, 3 * channels, c.qkv_bias);
  }
  c_proj = Linear(p / "c_proj", channels, channels, c.bias);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Rng* rng, const Tensor& padding) const {
  const AttentionOptions options{
      .causal = config.causal, .dropout = config.dropout, .rng = rng, .key_padding_mask = padding};
  Tensor y;
  if (config.separate_qkv) {
    const QKV parts = project(x, 0);
    y = attention(parts.q, parts.k, parts.v, config.n_head, options);
  } else {
    Tensor qkv = c_attn(x);
    if (config.rope)
      qkv = rope(qkv, head_size(), {.channels = 2 * qkv.dim(2) / 3, .base = config.rope_base});
    y = attention(qkv, config.n_head, options);
  }
  return maybe_dropout(c_proj(y), config.out_dropout, rng);
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& x, std::int64_t first) const {
  QKV parts;
  if (config.separate_qkv) {
    parts = {W_query(x), W_key(x), W_value(x)};
  } else {
    const std::int64_t C = x.dim(2);
    const std::vector<Tensor> thirds = split(c_attn(x), {C, C, C}, 2);
    parts = {thirds[0], thirds[1], thirds[2]};
  }
  if (config.rope) {
    parts.q = rope(parts.q, head_size(), {.first = first, .base = config.rope_base});
    parts.k = rope(parts.k, head_size(), {.first = first, .base = config.rope_base});
  }
  return parts;
}

Tensor MultiHeadAttention::weights(const Tensor& x, const Tensor& padding) const {
  const QKV parts = project(x, 0);
  return attention_weights(parts.q, parts.k, config.n_head, config.causal, padding);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, KeysAndValues& cache) const {
  check(config.causal, "[attention] only causal attention can go on after what it has seen");
  cache.check_follows(x);
  const QKV parts = project(x, cache.length());
  cache.append(parts.k, parts.v);
  // One new position sees all there are, so that it needs no causal mask.
  return c_proj(
      attention(parts.q, cache.keys(), cache.values(), config.n_head, {.causal = x.dim(1) > 1}));
}

void MultiHeadAttention::check_crosses() const {
  check(config.separate_qkv && !config.causal && !config.rope,
        "[attention] attention to another sequence needs separate_qkv, and neither causal nor "
        "rope");
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& memory, Rng* rng,
                                      const Tensor& padding) const {
  check_crosses();
  const AttentionOptions options{
      .causal = false, .dropout = config.dropout, .rng = rng, .key_padding_mask = padding};
  const Tensor q = W_query(x), k = W_key(memory), v = W_value(memory);
  return maybe_dropout(c_proj(attention(q, k, v, config.n_head, options)), config.out_dropout, rng);
}

void MultiHeadAttention::remember(const Tensor& memory, KeysAndValues& kept) const {
  check_crosses();
  kept.append(W_key(memory), W_value(memory));
}

Tensor MultiHeadAttention::recall(const Tensor& x, const KeysAndValues& kept,
                                  const Tensor& padding) const {
  return c_proj(attention(W_query(x), kept.keys(), kept.values(), config.n_head,
                          {.causal = false, .key_padding_mask = padding}));
}

}  // namespace tapegrad::nn
