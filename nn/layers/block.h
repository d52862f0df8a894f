#pragma once

#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers/experts.h"
#include "tapegrad/nn/layers/gated_delta_net.h"
#include "tapegrad/nn/layers/mamba2.h"
#include "tapegrad/nn/layers/short_conv.h"
#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

// y = x + attn(ln_1(x)), or conv, delta or mamba in place of attn, or the sum of attn and mamba,
// then y + mlp(ln_2(y)); with other places of the norms, ln_1_after and ln_2_after are applied to
// what attention and feed-forward add. Norms may be absent. So may be one of both steps, with its
// norms: the block is a mixer or a feed-forward alone then, as in Nemotron-H.
//
// With residual_scalars, a Decoder gives a block λ·x + μ·x₀ in place of x, where x₀ is its own
// first state, divided by the root of its mean square (nanochat's gpt.py; Jordan et al.,
// modded-nanogpt).
struct Block {
  Tensor state_scale, embedding_scale;  // λ and μ (1), 1 and 0 at first; undefined: there are none
  Norm ln_1;
  // One of these four mixes positions, or attention and a Mamba-2 do, or nothing; the others are
  // absent.
  MultiHeadAttention attn;
  ShortConv conv;
  GatedDeltaNet delta;
  Mamba2 mamba;
  Norm ln_1_after, ln_2;
  FeedForward mlp;  // absent in a block with experts, or without a feed-forward
  Experts experts;  // absent in others
  Norm ln_2_after;
  double residual_scale;  // of what attention and feed-forward add
  BlockScales scales;     // those of its parts' inputs and outputs
  // `index`: which of n_layer blocks it is.
  Block(const Params& p, const DecoderConfig& config, int index = 0);
  // With `routers`, experts note there what their router did.
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& document_starts = {},
                    RouterLosses* routers = nullptr) const;
  Tensor operator()(const Tensor& x, CachedLayer caches) const;
  // λ·x + μ·x₀, or x if there are no such numbers.
  Tensor entry(const Tensor& x, const Tensor& x0) const;
  // The attention weights of the block on its input (B, T, C): (B, H, T, T). Error if it has none.
  Tensor attention_weights(const Tensor& x) const;

 private:
  bool has_mixer() const {
    return attn.exists() || conv.exists() || delta.exists() || mamba.exists();
  }
  bool has_feed_forward() const { return mlp.exists() || experts.exists(); }
  template <class Run>
  Tensor mixed(const Tensor& normed, const Run& run) const;
  template <class Run>
  Tensor sublayers(const Tensor& x, const Run& run, Rng* rng,
                   RouterLosses* routers = nullptr) const;
};

}  // namespace tapegrad::nn
