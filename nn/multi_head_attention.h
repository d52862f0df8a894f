#pragma once

#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// The keys and values of the positions that one attention layer has seen of one sequence, so that
// those that follow need not compute them again.
struct KeysAndValues {
  Tensor keys, values;  // (capacity, C); made when they are first needed
};

// A place in a cache: rows [0, length) are filled, and what comes next is added behind.
struct CacheRef {
  KeysAndValues& rows;
  std::int64_t length, capacity;
};

struct AttentionConfig {
  int n_head = 1;
  bool bias = true;           // of c_proj
  bool qkv_bias = true;       // of the projections that make Q, K and V
  bool separate_qkv = false;  // W_query, W_key and W_value in place of c_attn
  bool rope = false;          // turn Q and K by their positions
  bool causal = true;
  double dropout = 0;      // of the attention weights
  double out_dropout = 0;  // of the result
};

// Multi-head self-attention.  (B, T, C) → (B, T, C)
struct MultiHeadAttention {
  AttentionConfig config;
  Linear c_attn;                   // C → 3C, or absent:
  Linear W_query, W_key, W_value;  // C → C each
  Linear c_proj;                   // C → C
  MultiHeadAttention(const Params& p, std::int64_t channels, const AttentionConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
  // The same for rows (1, T, C) that go on after those in the cache, to which their keys and values
  // are added. For generation: its in-place writes must not be recorded. T is 1 unless the cache is
  // empty.
  Tensor operator()(const Tensor& x, const CacheRef& cache) const;

 private:
  struct QKV {
    Tensor q, k, v;
  };
  QKV project(const Tensor& x, std::int64_t first_position) const;
  std::int64_t head_size() const { return c_proj.weight.dim(0) / config.n_head; }
};

}  // namespace tapegrad::nn
