#include "tapegrad/nn/layers/block.h"

#include <type_traits>

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

FeedForwardConfig feed_forward_config(const DecoderConfig& c, int block) {
  return {.hidden = c.has_experts(block) ? c.expert_inner() : c.inner(),
          .bias = c.with_mlp_bias(),
          .gated = c.with_gate(),
          .joined_gate = c.joined_gate,
          .activation = c.activation_kind(),
          .dropout = c.dropout,
          .hidden_dropout = c.ff_dropout ? c.dropout : 0,
          .gate_scale = c.scales_of(block).gate,
          .names = decoder_names(c).in_mlp};
}

// What mixes the positions of a block: one of these four, or attention and a Mamba-2. The others
// are absent.
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
           .norm_groups = c.mamba.norm_groups,
           .norm_eps = c.norm_eps,
           .scales = c.scales_of(block).of_mamba(),
           .dropout = c.attn_out_dropout ? c.dropout : 0,
           .names = names.in_mamba}};
}

// The feed-forward of a block, of which one of these two is, or none: the others are absent.
FeedForward make_dense(const Params& p, const DecoderConfig& c, int block) {
  if (c.has_experts(block) || !c.has_feed_forward(block)) return {};
  return {p / decoder_names(c).mlp, c.n_embd, feed_forward_config(c, block)};
}
Experts make_experts(const Params& p, const DecoderConfig& c, int block) {
  if (!c.has_experts(block)) return {};
  const DecoderNames names = decoder_names(c);
  return {p / names.mlp, c.n_embd, c.moe, feed_forward_config(c, block), names.in_experts};
}

Tensor make_scalar(const Params& p, const char* name, const DecoderConfig& c, const Init& first) {
  return c.residual_scalars ? (p / "residual_scalars").parameter(name, {1}, first) : Tensor();
}

}  // namespace

Block::Block(const Params& p, const DecoderConfig& c, int index)
    : state_scale(make_scalar(p, "state", c, ones())),
      embedding_scale(make_scalar(p, "embedding", c, zeros())),
      ln_1(make_norm(p, decoder_names(c).before_attention, c,
                     norms_before(c) && c.has_mixer(index))),
      attn(make_attention(p, c, index)),
      conv(make_conv(p, c, index)),
      delta(make_delta(p, c, index)),
      mamba(make_mamba(p, c, index)),
      ln_1_after(
          make_norm(p, decoder_names(c).after_attention, c, norms_after(c) && c.has_mixer(index))),
      ln_2(make_norm(p, decoder_names(c).before_mlp, c,
                     norms_before(c) && c.has_feed_forward(index))),
      mlp(make_dense(p, c, index)),
      experts(make_experts(p, c, index)),
      ln_2_after(
          make_norm(p, decoder_names(c).after_mlp, c, norms_after(c) && c.has_feed_forward(index))),
      residual_scale(c.residual_scale),
      scales(c.scales_of(index)) {}

// run(part, x) is the output of a part that mixes positions. Attention is the first one: it asks
// caches how many positions they have.
template <class Run>
Tensor Block::mixed(const Tensor& normed, const Run& run) const {
  if (conv.exists()) return run(conv, normed);
  if (delta.exists()) return run(delta, normed);
  const auto attended = [&] {
    return scaled(run(attn, scaled(normed, scales.attention_in)), scales.attention_out);
  };
  if (!mamba.exists()) return attended();
  const Tensor beside = attn.exists() ? attended() : Tensor();
  const Tensor y = scaled(run(mamba, normed), scales.mamba_out);
  return beside.defined() ? y + beside : y;
}

template <class Run>
Tensor Block::sublayers(const Tensor& x, const Run& run, Rng* rng, RouterLosses* routers) const {
  const auto feed_forward = [&](const Tensor& normed) {
    return scaled(mlp.exists() ? mlp(normed, rng) : experts(normed, rng, routers), scales.mlp);
  };
  Tensor y = x;
  if (has_mixer()) {
    y = y + scaled(maybe_norm(ln_1_after, mixed(maybe_norm(ln_1, y), run)), residual_scale);
  }
  if (has_feed_forward()) {
    y = y + scaled(maybe_norm(ln_2_after, feed_forward(maybe_norm(ln_2, y))), residual_scale);
  }
  return y;
}

Tensor Block::operator()(const Tensor& x, Rng* rng, const Tensor& document_starts,
                         RouterLosses* routers) const {
  const auto run = [&](const auto& part, const Tensor& in) {
    if constexpr (std::is_same_v<decltype(part), const MultiHeadAttention&>) {
      return part(in, rng, {}, document_starts);
    } else {
      return part(in, rng, document_starts);
    }
  };
  return sublayers(x, run, rng, routers);
}

Tensor Block::operator()(const Tensor& x, CachedLayer caches) const {
  return sublayers(
      x, [&](const auto& part, const Tensor& in) { return part(in, caches); }, nullptr);
}

Tensor Block::entry(const Tensor& x, const Tensor& x0) const {
  return state_scale.defined() ? x * state_scale + x0 * embedding_scale : x;
}

Tensor Block::attention_weights(const Tensor& x) const {
  check(attn.exists(), "[attention_weights] the block has a {} in place of attention",
        conv.exists()    ? "convolution"
        : delta.exists() ? "gated delta net"
        : mamba.exists() ? "Mamba-2"
                         : "feed-forward");
  return attn.weights(scaled(maybe_norm(ln_1, x), scales.attention_in));
}

}  // namespace tapegrad::nn
