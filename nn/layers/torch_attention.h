#pragma once

#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

struct TorchAttentionOptions {
  bool bias = true;                       // of all four projections
  double dropout = 0;                     // of the attention weights, if the call has an Rng
  std::optional<std::int64_t> kdim = {};  // channels of keys [those of queries]
  std::optional<std::int64_t> vdim = {};  // channels of values [those of queries]
};

// The keys that queries do not see; all undefined: they see all.
struct TorchAttentionMasks {
  Tensor key_padding_mask = {};  // (B, S), bool or u8: not 0 where a key is padding
  // (T, S) or (B·H, T, S): bool or u8, not 0 where a query does not see a key; or floats that are
  // added to the scores, and get gradients. Slower, with matrices of (B, H, T, S): see ScoreOptions
  // in attention_ops.h.
  Tensor attn_mask = {};
  bool is_causal = false;  // query i sees keys up to i, which needs no attn_mask
};

// PyTorch's nn.MultiheadAttention with batch_first: the names, initial values and draws of its
// state_dict. Queries (B, T, C), keys (B, S, kdim) and values (B, S, vdim) → (B, T, C). A query
// that sees no key gets zeros, not NaN. There are no add_bias_kv, add_zero_attn and masks of floats
// for padding, which attn_mask can express.
struct TorchAttention {
  int n_head = 1;
  double dropout = 0;
  Weight in_proj_weight;  // (3C, C): of queries, keys and values; absent with kdim or vdim, for:
  Weight q_proj_weight, k_proj_weight, v_proj_weight;  // (C, C), (C, kdim), (C, vdim)
  Tensor in_proj_bias;                                 // (3C) or undefined
  Linear out_proj;
  TorchAttention() = default;
  TorchAttention(const Params& p, std::int64_t channels, int n_head,
                 const TorchAttentionOptions& options = {});

  // Self-attention.
  Tensor operator()(const Tensor& x, Rng* rng = nullptr,
                    const TorchAttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, Rng* rng = nullptr,
                    const TorchAttentionMasks& masks = {}) const;
  // The weights of the values, without dropout: (B, H, T, S). PyTorch returns their mean over H.
  Tensor weights(const Tensor& query, const Tensor& key,
                 const TorchAttentionMasks& masks = {}) const;

 private:
  // The queries (part 0), keys (1) or values (2) of x.
  Tensor part(int part, const Tensor& x) const;
  ScoreOptions scores_of(const Tensor& query, const TorchAttentionMasks& masks) const;
};

}  // namespace tapegrad::nn
