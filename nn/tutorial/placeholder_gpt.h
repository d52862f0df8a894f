#pragma once

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {

// The scaffold of a GPT before it has blocks: embeddings and a head, with nothing between. It draws
// and names its parameters as a GPT whose head is its own.
struct PlaceholderGPT {
  Embedding wte, wpe;
  Linear lm_head;
  double dropout;  // of the embeddings
  PlaceholderGPT(const Params& p, const DecoderConfig& config);
  // ids (B, T) → logits (B, T, V).
  Tensor operator()(const Tensor& ids, Rng* rng = nullptr) const;
};

}  // namespace tapegrad::nn
