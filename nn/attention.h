#pragma once

#include "nn/layers.h"

namespace tapegrad::nn {

// Multi-head self-attention with one projection for Q, K and V.  (B, T, C) → (B, T, C)
struct MultiHeadAttention {
  Linear c_attn, c_proj;  // C → 3C, C → C
  int n_head;
  double dropout;  // of the attention weights and of the result
  bool causal;
  MultiHeadAttention(const Params& p, std::int64_t channels, int n_head, bool bias, bool qkv_bias,
                     double dropout, bool causal = true);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

}  // namespace tapegrad::nn
