#include "tapegrad/nn/llama.h"

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {
namespace {

// Of each head of x (B, T, heads·D), over its D channels.
Tensor norm_heads(const RMSNorm& norm, const Tensor& x, std::int64_t head_size) {
  const std::int64_t B = x.dim(0), T = x.dim(1), heads = x.dim(2) / head_size;
  return reshape(norm(reshape(x, {B, T, heads, head_size})), x.shape());
}

std::optional<RopeScaling> scaling_of(const GPTConfig& c) {
  if (c.rope_factor == 1) return std::nullopt;
  return RopeScaling{.factor = c.rope_factor,
                     .low_freq_factor = c.rope_low_freq_factor,
                     .high_freq_factor = c.rope_high_freq_factor,
                     .original_positions = c.rope_original_positions};
}

const GPTConfig& validated(const GPTConfig& config) {
  config.validate();
  check(config.is_llama(), "[llama] the config is of arch {}", name_of_enum(config.arch));
  return config;
}

RMSNorm make_norm(const Params& p, const GPTConfig& c) { return {p, c.n_embd, c.norm_eps}; }

}  // namespace

LlamaAttention::LlamaAttention(const Params& p, const GPTConfig& c)
    : q_proj(p / "q_proj", c.n_embd, c.n_head * c.channels_per_head(), c.with_qkv_bias()),
      k_proj(p / "k_proj", c.n_embd, c.kv_heads() * c.channels_per_head(), c.with_qkv_bias()),
      v_proj(p / "v_proj", c.n_embd, c.kv_heads() * c.channels_per_head(), c.with_qkv_bias()),
      o_proj(p / "o_proj", c.n_head * c.channels_per_head(), c.n_embd, false),
      n_head(c.n_head),
      head_size(c.channels_per_head()),
      rotation{.base = c.rope_base, .scaling = scaling_of(c)},
      dropout(c.dropout) {
  if (!c.qk_norm) return;
  q_norm = RMSNorm(p / "q_norm", head_size, c.norm_eps);
  k_norm = RMSNorm(p / "k_norm", head_size, c.norm_eps);
}

LlamaAttention::QKV LlamaAttention::project(const Tensor& x, std::int64_t first) const {
  QKV parts{q_proj(x), k_proj(x), v_proj(x)};
  if (q_norm.weight.defined()) {
    parts.q = norm_heads(q_norm, parts.q, head_size);
    parts.k = norm_heads(k_norm, parts.k, head_size);
  }
  RopeOptions at = rotation;
  at.first = first;
  parts.q = rope(parts.q, head_size, at);
  parts.k = rope(parts.k, head_size, at);
  return parts;
}

Tensor LlamaAttention::operator()(const Tensor& x, Rng* rng) const {
  const QKV parts = project(x, 0);
  const Tensor y = attention(parts.q, parts.k, parts.v, n_head, {.dropout = dropout, .rng = rng});
  return maybe_dropout(o_proj(y), dropout, rng);
}

Tensor LlamaAttention::weights(const Tensor& x) const {
  const QKV parts = project(x, 0);
  return attention_weights(parts.q, parts.k, n_head);
}

Tensor LlamaAttention::operator()(const Tensor& x, KeysAndValues& cache) const {
  cache.check_follows(x);
  const QKV parts = project(x, cache.length());
  cache.append(parts.k, parts.v);
  // One new position sees all there are, so that it needs no causal mask.
  return o_proj(attention(parts.q, cache.keys(), cache.values(), n_head, {.causal = x.dim(1) > 1}));
}

LlamaMLP::LlamaMLP(const Params& p, const GPTConfig& c)
    : gate_proj(p / "gate_proj", c.n_embd, c.inner(), false),
      up_proj(p / "up_proj", c.n_embd, c.inner(), false),
      down_proj(p / "down_proj", c.inner(), c.n_embd, false),
      dropout(c.dropout) {}

Tensor LlamaMLP::operator()(const Tensor& x, Rng* rng) const {
  return maybe_dropout(down_proj(swiglu(gate_proj(x), up_proj(x))), dropout, rng);
}

LlamaBlock::LlamaBlock(const Params& p, const GPTConfig& c)
    : input_layernorm(make_norm(p / "input_layernorm", c)),
      self_attn(p / "self_attn", c),
      post_attention_layernorm(make_norm(p / "post_attention_layernorm", c)),
      mlp(p / "mlp", c) {}

Tensor LlamaBlock::operator()(const Tensor& x, Rng* rng) const {
  const Tensor y = x + self_attn(input_layernorm(x), rng);
  return y + mlp(post_attention_layernorm(y), rng);
}

Tensor LlamaBlock::operator()(const Tensor& x, KeysAndValues& cache) const {
  const Tensor y = x + self_attn(input_layernorm(x), cache);
  return y + mlp(post_attention_layernorm(y));
}

Llama::Llama(const Params& p, const GPTConfig& c)
    : config(validated(c)),
      embed_tokens(p / "embed_tokens", c.vocab_size, c.n_embd),
      layers(decoder::make_blocks<LlamaBlock>(p / "layers", c)),
      norm(make_norm(p / "norm", c)),
      lm_head(decoder::make_head(p, c, embed_tokens)) {
  p.check_all_used();
}

Tensor Llama::embed(const Tensor& ids, std::int64_t first) const {
  decoder::check_ids(ids, first, config);
  return embed_tokens(ids);
}

std::vector<Tensor> Llama::residual_stream(const Tensor& embedded) const {
  return decoder::states_between(layers, embedded);
}

Tensor Llama::hidden(const Tensor& ids, Rng* rng) const {
  const Tensor x = maybe_dropout(embed(ids), config.dropout, rng);
  return norm(decoder::run_blocks(layers, x, recompute, rng));
}

Tensor Llama::last_logits(const Tensor& ids) const {
  const Tensor x = decoder::run_blocks(layers, embed(ids), false, nullptr);
  return lm_head(norm(decoder::last_position(x)));
}

Tensor Llama::last_logits(const Tensor& ids, KVCache& cache) const {
  const TapePause pause;
  const Tensor x = decoder::run_blocks(layers, embed(ids, cache.length()), cache);
  return lm_head(norm(decoder::last_position(x)));
}

}  // namespace tapegrad::nn
