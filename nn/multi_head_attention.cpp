#include "tapegrad/nn/multi_head_attention.h"

#include <algorithm>
#include <cmath>

namespace tapegrad::nn {

namespace {

// Norms x (B, T, heads·D) over as many channels as the norm has: those of each head, or of all.
Tensor norm_heads(const Norm& norm, const Tensor& x) {
  const std::int64_t B = x.dim(0), T = x.dim(1), size = norm.channels;
  return reshape(norm(reshape(x, {B, T, x.dim(2) / size, size})), x.shape());
}

// What queries x (B, T, C) are multiplied by, (B or 1, T, 1), where row b begins at firsts[b].
// Undefined if that is 1 for all.
Tensor query_scales(const AttentionConfig& c, const Tensor& x,
                    const std::vector<std::int64_t>& firsts, const Tensor& document_starts) {
  const std::int64_t T = x.dim(1),
                     latest = firsts.empty() ? 0 : *std::max_element(firsts.begin(), firsts.end());
  if (c.query_scale_beta == 0 || latest + T <= c.query_scale_positions) return {};
  const auto* const starts =
      document_starts.defined() ? document_starts.data<std::int32_t>() : nullptr;
  const std::int64_t rows = starts == nullptr && firsts.empty() ? 1 : x.dim(0);
  std::vector<float> scales;
  for (std::int64_t b = 0; b < rows; ++b) {
    const std::int64_t first = firsts.empty() ? 0 : firsts[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t place = first + t - (starts == nullptr ? 0 : starts[b * T + t]);
      const auto times = static_cast<double>(place / c.query_scale_positions);
      scales.push_back(static_cast<float>(1 + c.query_scale_beta * std::log(1 + times)));
    }
  }
  return Tensor::from(scales, {rows, T, 1}).to(x.dtype());
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Params& p, std::int64_t channels,
                                       const AttentionConfig& c)
    : config(c) {
  config.n_kv_head = c.n_kv_head.value_or(c.n_head);
  config.head_size = c.head_size.value_or(channels / c.n_head);
  const std::int64_t D = *config.head_size, q = c.n_head * D, kv = *config.n_kv_head * D;
  if (c.separate_qkv) {
    W_query = Linear(p / c.names.query, channels, c.out_gate ? 2 * q : q, c.qkv_bias);
    W_key = Linear(p / c.names.key, channels, kv, c.qkv_bias);
    W_value = Linear(p / c.names.value, channels, kv, c.qkv_bias);
  } else {
    check(!c.out_gate, "[attention] out_gate needs separate_qkv");
    c_attn = Linear(p / c.names.qkv, channels, q + 2 * kv, c.qkv_bias);
  }
  c_proj = Linear(p / c.names.out, q, channels, c.bias);
  if (c.sinks) sinks = p.parameter(c.names.sinks, {c.n_head}, zeros());
  if (!c.qk_norm) return;
  q_norm = Norm(p / c.names.query_norm, c.qk_norm_whole ? q : D, *c.qk_norm);
  k_norm = Norm(p / c.names.key_norm, c.qk_norm_whole ? kv : D, *c.qk_norm);
}

ScoreOptions MultiHeadAttention::scores(const Tensor& document_starts) const {
  ScoreOptions options = config.scores;
  options.document_starts = document_starts;
  options.sinks = sinks;
  return options;
}

bool MultiHeadAttention::packed() const {
  return !config.separate_qkv && config.n_kv_head == config.n_head && !config.qk_norm &&
         config.query_scale_beta == 0;
}

Tensor MultiHeadAttention::turned(const Tensor& x, std::int64_t channels, const Places& places,
                                  bool back) const {
  if (!config.rope) return x;
  return rope(x, *config.head_size,
              {.firsts = places.firsts,
               .document_starts = places.document_starts,
               .channels = channels,
               .turned = config.rope_channels,
               .base = config.rope_base,
               .scaling = config.rope_scaling,
               .back = back,
               .reversed = config.rope_reversed,
               .lengths = places.lengths});
}

Tensor MultiHeadAttention::operator()(const Tensor& x, Rng* rng, const Tensor& padding,
                                      const Tensor& document_starts) const {
  const AttentionOptions options{.causal = config.causal,
                                 .dropout = config.dropout,
                                 .rng = rng,
                                 .key_padding_mask = padding,
                                 .scores = scores(document_starts)};
  const Places places{.document_starts = document_starts};
  Tensor y;
  if (packed()) {
    const Tensor qkv = c_attn(x);
    y = attention(turned(qkv, 2 * qkv.dim(2) / 3, places), config.n_head, options);
  } else {
    const QKV parts = project(x, places);
    y = parts.gated(attention(parts.q, parts.k, parts.v, config.n_head, options));
  }
  return maybe_dropout(c_proj(y), config.out_dropout, rng);
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& x, const Places& places) const {
  QKV parts;
  if (config.separate_qkv) {
    const std::vector<Tensor> three = outputs_of(x, {&W_query, &W_key, &W_value});
    parts = {three[0], three[1], three[2]};
  } else {
    const std::int64_t D = *config.head_size, q = config.n_head * D, kv = *config.n_kv_head * D;
    const std::vector<Tensor> split_parts = split(c_attn(x), {q, kv, kv}, 2);
    parts = {split_parts[0], split_parts[1], split_parts[2]};
  }
  if (config.out_gate) {
    const std::int64_t B = x.dim(0), T = x.dim(1), D = *config.head_size, H = config.n_head;
    const std::vector<Tensor> halves = split(reshape(parts.q, {B, T, H, 2 * D}), {D, D}, 3);
    parts.q = reshape(halves[0], {B, T, H * D});
    parts.gate = reshape(halves[1], {B, T, H * D});
  }
  if (config.qk_norm) {
    parts.q = norm_heads(q_norm, parts.q);
    parts.k = norm_heads(k_norm, parts.k);
  }
  parts.q = turned(parts.q, parts.q.dim(2), places);
  parts.k = turned(parts.k, parts.k.dim(2), places);
  const Tensor scales = query_scales(config, parts.q, places.firsts, places.document_starts);
  if (scales.defined()) parts.q = parts.q * scales;
  return parts;
}

Tensor MultiHeadAttention::weights(const Tensor& x, const Tensor& padding) const {
  const QKV parts = project(x, {});
  return attention_weights(parts.q, parts.k, config.n_head, config.causal, padding, scores());
}

Tensor MultiHeadAttention::operator()(const Tensor& x, CachedLayer caches) const {
  check(config.causal, "[attention] only causal attention can go on after what it has seen");
  const QKV parts = project(x, {.firsts = caches.lengths(), .lengths = caches.most()});
  caches.append(parts.k, parts.v);
  return c_proj(parts.gated(attention(parts.q, caches.cached(), config.n_head, scores())));
}

Tensor MultiHeadAttention::moved_keys(const Tensor& keys, std::int64_t from, std::int64_t to,
                                      std::int64_t most) const {
  const auto at = [&](std::int64_t first) {
    return Places{.firsts = std::vector(static_cast<std::size_t>(keys.dim(0)), first),
                  .lengths = {most}};
  };
  return turned(turned(keys, keys.dim(2), at(from), true), keys.dim(2), at(to));
}

void MultiHeadAttention::check_crosses() const {
  check(
      config.separate_qkv && !config.causal && !config.rope && !config.qk_norm && !config.out_gate,
      "[attention] attention to another sequence needs separate_qkv, and neither causal, rope, "
      "qk_norm nor out_gate");
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& memory, Rng* rng,
                                      const Tensor& padding) const {
  check_crosses();
  const AttentionOptions options{.causal = false,
                                 .dropout = config.dropout,
                                 .rng = rng,
                                 .key_padding_mask = padding,
                                 .scores = scores()};
  const Tensor q = W_query(x), k = W_key(memory), v = W_value(memory);
  return maybe_dropout(c_proj(attention(q, k, v, config.n_head, options)), config.out_dropout, rng);
}

CrossCache MultiHeadAttention::cache_keys_values(const Tensor& memory) const {
  check_crosses();
  return {W_key(memory), W_value(memory)};
}

Tensor MultiHeadAttention::cross_attend(const Tensor& x, const CrossCache& kept,
                                        const Tensor& padding) const {
  return c_proj(attention(W_query(x), kept.keys, kept.values, config.n_head,
                          {.causal = false, .key_padding_mask = padding, .scores = scores()}));
}

}  // namespace tapegrad::nn
