#pragma once

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// The names of a gated delta net's parts.
struct GatedDeltaNetNames {
  const char *qkv = "in_proj_qkv", *gate = "in_proj_z", *beta = "in_proj_b", *decay = "in_proj_a";
  const char *conv = "conv1d", *step = "dt_bias", *rate = "A_log", *norm = "norm";
  const char* out = "out_proj";
};
struct GatedDeltaNetConfig {
  std::int64_t heads = 1;       // of values
  std::int64_t key_heads = 1;   // of queries and keys; divides that of values
  std::int64_t key_size = 1;    // channels of a head of queries and keys
  std::int64_t value_size = 1;  // of values
  std::int64_t kernel = 4;      // positions that the convolution sees
  double norm_eps = 1e-6;
  double dropout = 0;  // of the result
  GatedDeltaNetNames names = {};
};

// Gated delta net (Yang et al., "Gated Delta Networks", 2024, section 3.4), as in Qwen3-Next and
// Qwen 3.5: a linear attention, which mixes positions by a state of one size. Of x, in_proj_qkv
// makes q, k and v side by side, which silu(causal_conv1d(…)) mixes over a few positions; q and k
// get length 1 in each head. With β = σ(in_proj_b(x)) and g = −exp(A_log)·softplus(in_proj_a(x) +
// dt_bias) of each head, y = gated_delta_rule(q, k, v, g, β), and the result is
// out_proj(rms_norm(y)·silu(in_proj_z(x))), normed over the channels of a head.
// (B, T, C) → (B, T, C). Linears and the convolution are initialised as nn.Linear and nn.Conv1d,
// exp(A_log) in (0, 16], and dt_bias so that softplus(dt_bias) is from 0.001 to 0.1, evenly in its
// logarithm, as the authors' code does.
struct GatedDeltaNet {
  GatedDeltaNetConfig config;
  Linear in_proj_qkv;           // C → 2·key_heads·key_size + heads·value_size
  Linear in_proj_z;             // C → heads·value_size
  Linear in_proj_b, in_proj_a;  // C → heads
  Tensor weight;                // of the convolution: (outputs of in_proj_qkv, 1, kernel)
  Tensor dt_bias, A_log;        // (heads)
  RMSNorm norm;                 // over value_size
  Linear out_proj;              // heads·value_size → C
  GatedDeltaNet() = default;
  GatedDeltaNet(const Params& p, std::int64_t channels, const GatedDeltaNetConfig& config);
  bool exists() const { return weight.defined(); }
  // With `document_starts` (B, T) i32, of documents side by side (ScoreOptions in ops.h).
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& document_starts = {}) const;
  // Of positions (B, T, C) that follow those in the caches of B sequences, which keep their states:
  // see RecurrentStates. For generation: no tape may record it.
  Tensor operator()(const Tensor& x, CachedLayer caches) const;

 private:
  struct Mixed {
    Tensor q, k, v, g, beta;
  };
  std::int64_t key_channels() const { return config.key_heads * config.key_size; }
  std::int64_t value_channels() const { return config.heads * config.value_size; }
  Mixed mix(const Tensor& qkv, const Tensor& b, const Tensor& a,
            const Tensor& document_starts = {}) const;
  Tensor output(const Tensor& y, const Tensor& z) const;
};

}  // namespace tapegrad::nn
