#pragma once

#include <string_view>

#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/layers/gated_delta_net.h"
#include "tapegrad/nn/layers/mamba2.h"
#include "tapegrad/nn/layers/short_conv.h"
#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

// The names of a Decoder's parts in files: with Architecture::gpt2 as in Hugging Face's
// GPT-2 ("h.0.attn.c_attn.weight"), with Architecture::llama as in their Llama, without "model."
// ("layers.0.self_attn.q_proj.weight").
struct DecoderNames {
  const char *tokens, *positions, *blocks, *last_norm, *head = "lm_head", *ngrams = "ngrams",
                                                       *embedding_norm = "embedding_norm";
  // In a block; empty where its config has no such norm.
  const char *before_attention, *attention, *after_attention;
  const char *conv = "conv", *delta = "linear_attn", *mamba = "mamba";
  const char *before_mlp, *mlp, *after_mlp;
  AttentionNames in_attention;
  FeedForwardNames in_mlp;
  ExpertNames in_experts;
  ShortConvNames in_conv = {};
  GatedDeltaNetNames in_delta = {};
  Mamba2Names in_mamba = {};
};
DecoderNames decoder_names(const DecoderConfig& config);

}  // namespace tapegrad::nn
