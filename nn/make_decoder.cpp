#include "tapegrad/nn/make_decoder.h"

namespace tapegrad::nn {

Decoder make_decoder(const Params& params, const DecoderConfig& config,
                     const DecoderBuildOptions& how) {
  params.adapt(how.adapters, how.new_adapters);
  Decoder model(params, config);
  model.recompute = how.recompute;
  if (how.gpt2_weights != nullptr) init_gpt2(model, params, *how.gpt2_weights);
  params.freeze(how.frozen);
  return model;
}

Decoder without_adapters(Decoder model) {
  for (Block& block : model.h) {
    MultiHeadAttention& attn = block.attn;
    GatedDeltaNet& delta = block.delta;
    for (Linear* layer : {&attn.c_attn,
                          &attn.W_query,
                          &attn.W_key,
                          &attn.W_value,
                          &attn.c_proj,
                          &block.conv.in_proj,
                          &block.conv.out_proj,
                          &delta.in_proj_qkv,
                          &delta.in_proj_z,
                          &delta.in_proj_b,
                          &delta.in_proj_a,
                          &delta.out_proj,
                          &block.mamba.in_proj,
                          &block.mamba.out_proj,
                          &block.mlp.c_gate,
                          &block.mlp.c_fc,
                          &block.mlp.c_proj,
                          &block.experts.router,
                          &block.experts.shared.c_gate,
                          &block.experts.shared.c_fc,
                          &block.experts.shared.c_proj}) {
      layer->adapter = Lora();
    }
    for (ExpertLinear* layer :
         {&block.experts.c_gate, &block.experts.c_fc, &block.experts.c_proj}) {
      layer->adapter = StackedLora();
    }
  }
  model.lm_head.adapter = Lora();
  return model;
}

}  // namespace tapegrad::nn
