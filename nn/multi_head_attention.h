#pragma once

#include "tapegrad/nn/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

struct AttentionConfig {
  int n_head = 1;
  bool bias = true;           // of c_proj
  bool qkv_bias = true;       // of the projections that make Q, K and V
  bool separate_qkv = false;  // W_query, W_key and W_value in place of c_attn
  bool rope = false;          // turn Q and K by their positions
  double rope_base = 10000;
  bool causal = true;
  double dropout = 0;      // of the attention weights
  double out_dropout = 0;  // of the result
};

// Multi-head attention of a sequence to itself or to another one.  (B, T, C) → (B, T, C)
//
// `padding` is (B, keys) u8 or undefined; keys where it is not 0 are padding that no query sees.
struct MultiHeadAttention {
  AttentionConfig config;
  Linear c_attn;                   // C → 3C, or absent:
  Linear W_query, W_key, W_value;  // C → C each
  Linear c_proj;                   // C → C
  MultiHeadAttention(const Params& p, std::int64_t channels, const AttentionConfig& config);

  // Self-attention.
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& padding = {}) const;
  // The weights by which self-attention of x (B, T, C) takes its values, without dropout: (B, H, T,
  // T).
  Tensor weights(const Tensor& x, const Tensor& padding = {}) const;
  // Self-attention of the positions (B, T, C) that follow those in the cache, to which their keys
  // and values are added. For generation: no tape may record it. Only causal attention can do this,
  // and T is 1 unless the cache is empty.
  Tensor operator()(const Tensor& x, KeysAndValues& cache) const;
  // Attention of x to `memory` (B, S, C). Needs separate_qkv, and neither causal nor rope.
  Tensor operator()(const Tensor& x, const Tensor& memory, Rng* rng, const Tensor& padding) const;
  // The keys and values that the last one makes of a memory, and that attention with them.
  void remember(const Tensor& memory, KeysAndValues& kept) const;
  Tensor recall(const Tensor& x, const KeysAndValues& kept, const Tensor& padding) const;

 private:
  struct QKV {
    Tensor q, k, v;
  };
  QKV project(const Tensor& x, std::int64_t first_position) const;
  void check_crosses() const;
  std::int64_t head_size() const { return c_proj.weight.dim(0) / config.n_head; }
};

}  // namespace tapegrad::nn
