#pragma once

#include "tapegrad/autograd/onnx/internal/onnx_graph.h"
#include "tapegrad/nn/params.h"
#include "tapegrad/nn/transformer.h"

namespace tapegrad::run {

// The halves of an encoder–decoder, with the inputs and outputs that Optimum's exports have and
// transformers.js feeds. Ids and masks are i64; a mask of 0 hides a position of the source.
//
// encoder: input_ids and attention_mask (B, S) → last_hidden_state (B, S, C).
//
// decoder: encoder_attention_mask (B, S), input_ids (B, T), encoder_hidden_states (B, S, C), and
// for each layer N past_key_values.N.decoder.key and .value (B, H, P, D) of the P tokens before,
// and past_key_values.N.encoder.key and .value (B, H, S, D) of the source → logits (B, T, V), and
// present.N.… of each past, with what this call has added. Pasts of length 0 are a first call,
// which makes keys and values of the whole source; calls after it make none. So this graph needs no
// two branches, between which other exports choose by an input use_cache_branch.
struct EncoderDecoderGraphs {
  OnnxGraph encoder, decoder;
};
EncoderDecoderGraphs encoder_decoder_graphs(const nn::Transformer& model, const nn::Params& params,
                                            const StoredType& type);

}  // namespace tapegrad::run
