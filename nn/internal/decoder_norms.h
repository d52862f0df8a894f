#pragma once

#include <utility>

#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// What a Decoder and its blocks share. An absent norm leaves x as it is.

inline NormOptions norm_options(const DecoderConfig& c) {
  return {.kind = c.norm_kind(), .bias = c.with_norm_bias(), .eps = c.norm_eps};
}

inline Norm make_norm(const Params& p, const char* name, const DecoderConfig& c,
                      bool present = true) {
  return present ? Norm(p / name, c.n_embd, norm_options(c)) : Norm();
}

inline Tensor scaled(const Tensor& x, double by) { return by == 1 ? x : x * by; }

inline Tensor maybe_norm(const Norm& norm, Tensor x) {
  if (norm.exists()) return norm(x);
  return x;
}

}  // namespace tapegrad::nn
