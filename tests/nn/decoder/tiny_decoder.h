#pragma once

#include "tapegrad/nn/decoder.h"
#include "tapegrad/tests/nn/models.h"

namespace tapegrad::testing {

// A Decoder in f64 whose parameters are random, and a batch for it.
struct TinyDecoder {
  explicit TinyDecoder(const nn::DecoderConfig& config)
      : params(rng, DType::f64), model(params, config) {
    randomize(params.parameters(), rng);
    inputs = random_ids(rng, {2, config.block_size}, config.vocab_size);
    targets = random_ids(rng, {2, config.block_size}, config.vocab_size);
  }
  double loss() const { return model.loss(inputs, targets).item(); }
  Rng rng{5};
  nn::Params params;
  nn::Decoder model;
  Tensor inputs, targets;
};

}  // namespace tapegrad::testing
