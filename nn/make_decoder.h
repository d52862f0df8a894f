#pragma once

#include <string>
#include <vector>

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {

// How a decoder is made for training.
struct DecoderBuildOptions {
  LoraOptions adapters = {};             // of rank 0: none
  std::vector<std::string> frozen = {};  // patterns: see Params::freeze
  bool recompute = false;                // see Decoder
  Rng* new_adapters = nullptr;           // see Params::adapt
  Rng* gpt2_weights = nullptr;           // init_gpt2() draws from it
};

// The decoder of these parameters, with its adapters, of whose parameters some may be frozen.
// Errors as Params::adapt and Params::freeze, and if a source does not fit the config.
Decoder make_decoder(const Params& params, const DecoderConfig& config,
                     const DecoderBuildOptions& how);

// The same decoder, on the same weights, without its adapters.
Decoder without_adapters(Decoder model);

}  // namespace tapegrad::nn
