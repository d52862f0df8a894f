#include "tapegrad/nn/decoder_names.h"

namespace tapegrad::nn {
namespace {

DecoderNames gpt2_names() {
  return {.tokens = "wte",
          .positions = "wpe",
          .blocks = "h",
          .last_norm = "ln_f",
          .before_attention = "ln_1",
          .attention = "attn",
          .after_attention = "ln_1_after",
          .before_mlp = "ln_2",
          .mlp = "mlp",
          .after_mlp = "ln_2_after",
          .in_attention = {},
          .in_mlp = {},
          .in_experts = {}};
}

// transformers calls the norm before the feed-forward post_attention_layernorm, unless there is a
// norm behind the attention, as in Gemma 2 and OLMo 2.
DecoderNames llama_names(NormPlace place) {
  const bool before_alone = place == NormPlace::before;
  return {
      .tokens = "embed_tokens",
      .positions = "embed_positions",
      .blocks = "layers",
      .last_norm = "norm",
      .before_attention = "input_layernorm",
      .attention = "self_attn",
      .after_attention = "post_attention_layernorm",
      .before_mlp = before_alone ? "post_attention_layernorm" : "pre_feedforward_layernorm",
      .mlp = "mlp",
      .after_mlp = "post_feedforward_layernorm",
      .in_attention = {.qkv = "qkv_proj",
                       .query = "q_proj",
                       .key = "k_proj",
                       .value = "v_proj",
                       .out = "o_proj"},
      .in_mlp = {.gate = "gate_proj", .in = "up_proj", .out = "down_proj", .both = "gate_up_proj"},
      .in_experts = {.router = "gate",
                     .selection_bias = "expert_bias",
                     .experts = "experts",
                     .shared = "shared_expert",
                     .shared_gate = "shared_expert_gate"}};
}

}  // namespace

DecoderNames decoder_names(const DecoderConfig& c) {
  return c.arch == Architecture::llama ? llama_names(c.norm_place) : gpt2_names();
}

}  // namespace tapegrad::nn
