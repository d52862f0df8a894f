#pragma once

#include "tapegrad/autograd/onnx/internal/onnx_graph.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::run {

// Error, naming the option, if a graph of ONNX cannot compute models of this config.
void check_onnx_config(const nn::DecoderConfig& config);

// A decoder as transformers.js calls it. Inputs: input_ids (B, T), attention_mask (B, S)
// and position_ids (B, T) of i64, and for each block N past_key_values.N.key and .value (B, K, S −
// T, D). Outputs: logits (B, T, V), present.N.key and .value (B, K, S, D). S − T may be 0: a call
// without a cache. Keys have their positions already. A mask of 0 hides a position from all
// queries: padding, before a text; behind it only in its last call, since windows count positions
// of the cache.
OnnxGraph decoder_graph(const nn::Decoder& model, const nn::Params& params, const StoredType& type);

}  // namespace tapegrad::run
