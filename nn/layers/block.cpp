#include "tapegrad/nn/layers/block.h"

#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/nn/internal/decoder_norms.h"

namespace tapegrad::nn {
namespace {

bool norms_before(const DecoderConfig& c) { return c.norm_place != NormPlace::after; }
bool norms_after(const DecoderConfig& c) { return c.norm_place != NormPlace::before; }

AttentionConfig attention_config(const DecoderConfig& c, int block) {
  AttentionConfig a{.n_head = c.n_head,
                    .n_kv_head = c.kv_heads(),
                    .head_size = c.channels_per_head(),
                    .bias = c.with_bias(),
                    .qkv_bias = c.with_qkv_bias(),
                    .separate_qkv = c.projects_apart(),
                    .qk_norm_whole = c.qk_norm_whole,
                    .rope = c.turns(block),
                    .rope_channels = c.rope_channels,
                    .rope_base = c.rope_base_of(block),
                    .rope_scaling = c.scaling_of(block),
                    .rope_reversed = c.rope_reversed,
                    .query_scale_beta = c.query_scale_beta,
                    .query_scale_positions = c.rope_original_positions,
                    .out_gate = c.attn_gate,
                    .sinks = c.attention_sinks,
                    .scores = c.scores_of(block),
                    .dropout = c.dropout,
                    .out_dropout = c.attn_out_dropout ? c.dropout : 0,
                    .names = decoder_names(c).in_attention};
  if (c.qk_norm) a.qk_norm = norm_options(c);
  return a;
}

FeedForwardConfig feed_forward_config(const DecoderConfig& c, std::int64_t width) {
  return {.hidden = width,
          .bias = c.with_mlp_bias(),
          .gated = c.with_gate(),
          .joined_gate = c.joined_gate,
          .activation = c.activation_kind(),
          .dropout = c.dropout,
          .hidden_dropout = c.ff_dropout ? c.dropout : 0,
          .names = decoder_names(c).in_mlp};
}

// What mixes the positions of a block, of which one of these four is: the others are absent.
MultiHeadAttention make_attention(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_attention(block)) return {};
  return {p / decoder_names(c).attention, c.n_embd, attention_config(c, block)};
}
ShortConv make_conv(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_conv(block)) return {};
  const DecoderNames names = decoder_names(c);
  return {p / names.conv,
          c.n_embd,
          {.kernel = c.conv_kernel,
           .bias = c.conv_bias,
           .dropout = c.attn_out_dropout ? c.dropout : 0,
           .names = names.in_conv}};
}
GatedDeltaNet make_delta(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_delta(block)) return {};
  const DecoderNames names = decoder_names(c);
  const DeltaSizes sizes = c.delta_sizes();
  return {p / names.delta,
          c.n_embd,
          {.heads = sizes.heads,
           .key_heads = sizes.key_heads,
           .key_size = sizes.key_size,
           .value_size = sizes.value_size,
           .kernel = c.conv_kernel,
           .norm_eps = c.norm_eps,
           .dropout = c.attn_out_dropout ? c.dropout : 0,
           .names = names.in_delta}};
}
Mamba2 make_mamba(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_mamba(block)) return {};
  const DecoderNames names = decoder_names(c);
  return {p / names.mamba,
          c.n_embd,
          {.sizes = c.mamba_sizes(),
           .kernel = c.conv_kernel,
           .conv_bias = c.conv_bias,
           .norm_eps = c.norm_eps,
           .dropout = c.attn_out_dropout ? c.dropout : 0,
           .names = names.in_mamba}};
}

// The feed-forward of a block, of which one of these two is: the other one is absent.
FeedForward make_dense(const Params& p, const DecoderConfig& c, int block) {
  if (c.has_experts(block)) return {};
  return {p / decoder_names(c).mlp, c.n_embd, feed_forward_config(c, c.inner())};
}
Experts make_experts(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_experts(block)) return {};
  const DecoderNames names = decoder_names(c);
  return {p / names.mlp, c.n_embd, c.moe, feed_forward_config(c, c.expert_inner()),
          names.in_experts};
}

Tensor make_scalar(const Params& p, const char* name, const DecoderConfig& c, const Init& first) {
  return c.residual_scalars ? (p / "residual_scalars").parameter(name, {1}, first) : Tensor();
}

}  // namespace

Block::Block(const Params& p, const DecoderConfig& c, int index)
    : state_scale(make_scalar(p, "state", c, ones())),
      embedding_scale(make_scalar(p, "embedding", c, zeros())),
      ln_1(make_norm(p, decoder_names(c).before_attention, c, norms_before(c))),
      attn(make_attention(p, c, index)),
      conv(make_conv(p, c, index)),
      delta(make_delta(p, c, index)),
      mamba(make_mamba(p, c, index)),
      ln_1_after(make_norm(p, decoder_names(c).after_attention, c, norms_after(c))),
      ln_2(make_norm(p, decoder_names(c).before_mlp, c, norms_before(c))),
      mlp(make_dense(p, c, index)),
      experts(make_experts(p, c, index)),
      ln_2_after(make_norm(p, decoder_names(c).after_mlp, c, norms_after(c))),
      residual_scale(c.residual_scale) {}

template <class Mix>
Tensor Block::sublayers(const Tensor& x, const Mix& mix, Rng* rng, RouterLosses* routers) const {
  const auto feed_forward = [&](const Tensor& normed) {
    return mlp.exists() ? mlp(normed, rng) : experts(normed, rng, routers);
  };
  const Tensor y = x + scaled(maybe_norm(ln_1_after, mix(maybe_norm(ln_1, x))), residual_scale);
  return y + scaled(maybe_norm(ln_2_after, feed_forward(maybe_norm(ln_2, y))), residual_scale);
}

Tensor Block::operator()(const Tensor& x, Rng* rng, const Tensor& document_starts,
                         RouterLosses* routers) const {
  const auto mix = [&](const Tensor& normed) {
    if (conv.exists()) return conv(normed, rng, document_starts);
    if (delta.exists()) return delta(normed, rng, document_starts);
    if (mamba.exists()) return mamba(normed, rng, document_starts);
    return attn(normed, rng, {}, document_starts);
  };
  return sublayers(x, mix, rng, routers);
}

Tensor Block::cached_mixer(const Tensor& normed, CachedLayer caches) const {
  if (conv.exists()) return conv(normed, caches);
  if (delta.exists()) return delta(normed, caches);
  if (mamba.exists()) return mamba(normed, caches);
  return attn(normed, caches);
}

Tensor Block::operator()(const Tensor& x, CachedLayer caches) const {
  return sublayers(
      x, [&](const Tensor& normed) { return cached_mixer(normed, caches); }, nullptr);
}

Tensor Block::entry(const Tensor& x, const Tensor& x0) const {
  return state_scale.defined() ? x * state_scale + x0 * embedding_scale : x;
}

Tensor Block::attention_weights(const Tensor& x) const {
  check(attn.exists(), "[attention_weights] the block has a {} in place of attention",
        conv.exists()    ? "convolution"
        : delta.exists() ? "gated delta net"
                         : "Mamba-2");
  return attn.weights(maybe_norm(ln_1, x));
}

}  // namespace tapegrad::nn
