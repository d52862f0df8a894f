#pragma once

#include "tapegrad/nn/gpt.h"

namespace tapegrad::nn {

// Llama's architecture (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models",
// 2023, section 2.2; Dubey et al., "The Llama 3 Herd of Models", 2024, section 3.2), which is also
// that of SmolLM, Mistral, and with other options that of Qwen2 (qkv_bias) and Qwen3 (qk_norm).
// GPTConfig's members name its sizes. Names of the parameters are Hugging Face's, without "model."
// ("layers.0.self_attn.q_proj.weight").

// Attention of H heads of queries to K heads of keys and values; H/K heads of queries in a row
// share one of keys (Ainslie et al., "GQA", 2023). Queries and keys are turned by their positions.
// (B, T, C) → (B, T, C)
struct LlamaAttention {
  Linear q_proj;           // C → H·D
  Linear k_proj, v_proj;   // C → K·D
  Linear o_proj;           // H·D → C
  RMSNorm q_norm, k_norm;  // of each head, over D; absent without qk_norm
  int n_head;
  std::int64_t head_size;  // D
  RopeOptions rotation;
  double dropout;
  LlamaAttention(const Params& p, const GPTConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
  // The weights of its heads, as MultiHeadAttention's: (B, H, T, T).
  Tensor weights(const Tensor& x) const;
  // Of the positions that follow those in the cache, as MultiHeadAttention's.
  Tensor operator()(const Tensor& x, KeysAndValues& cache) const;

 private:
  struct QKV {
    Tensor q, k, v;
  };
  QKV project(const Tensor& x, std::int64_t first_position) const;
};

// down(silu(gate(x)) · up(x)): SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020).
struct LlamaMLP {
  Linear gate_proj, up_proj;  // C → inner
  Linear down_proj;           // inner → C
  double dropout;
  LlamaMLP(const Params& p, const GPTConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

// x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
struct LlamaBlock {
  RMSNorm input_layernorm;
  LlamaAttention self_attn;
  RMSNorm post_attention_layernorm;
  LlamaMLP mlp;
  LlamaBlock(const Params& p, const GPTConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
  Tensor operator()(const Tensor& x, KeysAndValues& cache) const;
  Tensor attention_weights(const Tensor& x) const { return self_attn.weights(input_layernorm(x)); }
};

// Its forward functions are those of GPT. Dropout is where GPT has it: behind the embedding, on the
// weights of attention, and on what is added to the residual stream.
struct Llama {
  GPTConfig config;
  Embedding embed_tokens;
  std::vector<LlamaBlock> layers;
  RMSNorm norm;
  Linear lm_head;
  bool recompute = false;  // as GPT's

  // Error if config.arch is not llama.
  Llama(const Params& p, const GPTConfig& config);

  Tensor embed(const Tensor& ids, std::int64_t first_position = 0) const;
  std::vector<Tensor> residual_stream(const Tensor& embedded) const;
  Tensor hidden(const Tensor& ids, Rng* rng = nullptr) const;
  Tensor operator()(const Tensor& ids, Rng* rng = nullptr) const {
    return lm_head(hidden(ids, rng));
  }
  Tensor loss(const Tensor& ids, const Tensor& targets, Rng* rng = nullptr,
              std::int32_t ignore_index = -100) const {
    return linear_cross_entropy(hidden(ids, rng), lm_head.weight, targets, ignore_index,
                                lm_head.precision);
  }
  Tensor last_logits(const Tensor& ids) const;
  Tensor last_logits(const Tensor& ids, KVCache& cache) const;
};

}  // namespace tapegrad::nn
