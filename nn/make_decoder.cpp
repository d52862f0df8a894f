#include "tapegrad/nn/make_decoder.h"

namespace tapegrad::nn {

Decoder make_decoder(const Params& params, const DecoderConfig& config, const DecoderMaking& how) {
  params.adapt(how.adapters, how.new_adapters);
  Decoder model(params, config);
  model.recompute = how.recompute;
  if (how.gpt2_weights != nullptr) init_gpt2(model, params, *how.gpt2_weights);
  params.freeze(how.frozen);
  return model;
}

}  // namespace tapegrad::nn
