#pragma once

#include "tapegrad/nn/decoder.h"

namespace tapegrad::tutorial {

// The scaffold of a GPT before it has blocks: embeddings and a head, with nothing between. It draws
// and names its parameters as a GPT whose head is its own.
struct PlaceholderGPT {
  nn::Embedding wte, wpe;
  nn::Linear lm_head;
  double dropout;  // of the embeddings
  PlaceholderGPT(const nn::Params& p, const nn::DecoderConfig& config);
  // ids (B, T) → logits (B, T, V).
  Tensor operator()(const Tensor& ids, Rng* rng = nullptr) const;
};

}  // namespace tapegrad::tutorial
