#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {
namespace {

// Rows x (1, T, C) into buffer (capacity, C), from row `at` on.
void put_rows(Tensor& buffer, std::int64_t at, std::int64_t capacity, const Tensor& x) {
  if (!buffer.defined()) buffer = Tensor::empty({capacity, x.dim(2)}, x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(x.data<T>(), x.numel(), buffer.mutable_data<T>() + at * x.dim(2));
  });
}

}  // namespace

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

Tensor MultiHeadAttention::operator()(const Tensor& x, Rng* rng) const {
  const AttentionOptions options{.causal = config.causal, .dropout = config.dropout, .rng = rng};
  Tensor y;
  if (config.separate_qkv) {
    const QKV parts = project(x, 0);
    y = attention(parts.q, parts.k, parts.v, config.n_head, options);
  } else {
    Tensor qkv = c_attn(x);
    if (config.rope) qkv = rope(qkv, head_size(), {.channels = 2 * qkv.dim(2) / 3});
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
    parts.q = rope(parts.q, head_size(), {.first = first});
    parts.k = rope(parts.k, head_size(), {.first = first});
  }
  return parts;
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const CacheRef& cache) const {
  const std::int64_t T = x.dim(1), all = cache.length + T;
  check(config.causal && x.dim(0) == 1 && (T == 1 || cache.length == 0) && all <= cache.capacity,
        "[attention] rows {} cannot go on after {} of {} in a cache of causal attention", x.shape(),
        cache.length, cache.capacity);
  const QKV parts = project(x, cache.length);
  put_rows(cache.rows.keys, cache.length, cache.capacity, parts.k);
  put_rows(cache.rows.values, cache.length, cache.capacity, parts.v);
  const Shape seen{1, all, x.dim(2)};
  // One new row sees all there are.
  return c_proj(attention(parts.q, cache.rows.keys.rows(0, all).view(seen),
                          cache.rows.values.rows(0, all).view(seen), config.n_head,
                          {.causal = T > 1}));
}

}  // namespace tapegrad::nn
