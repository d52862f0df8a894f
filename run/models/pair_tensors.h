#pragma once

#include "tapegrad/data/pairs.h"
#include "tapegrad/nn/transformer.h"

namespace tapegrad::run {

// A batch of pairs as tensors, with its masks.
struct PairTensors {
  Tensor sources, inputs, labels;  // (B, S), (B, T), (B, T)
  nn::PaddingMasks masks;
  std::int64_t tokens;  // of both sides that are not padding
};
PairTensors tensors_of(const data::PairBatch& batch, const data::SpecialTokens& special);

}  // namespace tapegrad::run
