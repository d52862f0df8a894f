#pragma once

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// The names of a gated short convolution's parts.
struct ShortConvNames {
  const char *in = "in_proj", *conv = "conv", *out = "out_proj";
};
struct ShortConvConfig {
  std::int64_t kernel = 3;  // positions that an output sees: its own and those before it
  bool bias = false;        // of all three parts
  double dropout = 0;       // of the result
  ShortConvNames names = {};
};

// A gated short convolution, which mixes positions in place of attention: in_proj makes b, c and v
// of x, C channels each; y = out_proj(c · causal_conv1d(b · v)) (Liquid AI, "LFM2 Technical
// Report", 2025; the convolution of each channel as in Poli et al., "Hyena Hierarchy", 2023).
// (B, T, C) → (B, T, C). Initialised as nn.Conv1d and nn.Linear, in the order of transformers.
struct ShortConv {
  ShortConvConfig config;
  Tensor weight, bias;       // (C, 1, kernel), (C) or undefined
  Linear in_proj, out_proj;  // C → 3·C, C → C
  ShortConv() = default;
  ShortConv(const Params& p, std::int64_t channels, const ShortConvConfig& config);
  bool exists() const { return weight.defined(); }
  // With `document_starts` (B, T) i32, of documents side by side (ScoreOptions in ops.h).
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& document_starts = {}) const;
  // Of positions (B, T, C) that follow those in the caches of B sequences, to which b · v is added.
  // For generation: no tape may record it. Error unless C is even.
  Tensor operator()(const Tensor& x, CachedLayer caches) const;

 private:
  struct Gated {
    Tensor gate, conv_in;  // c, and b · v
  };
  Gated gated(const Tensor& x) const;
};

}  // namespace tapegrad::nn
