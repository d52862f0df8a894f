#pragma once

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {

// log p(target) at positions of a decoder, of which states (N, C) are what hidden() gives, and
// targets (N) i32: (N). The logits never exist as a whole.
Tensor target_log_probs(const Decoder& model, const Tensor& states, const Tensor& targets);

}  // namespace tapegrad::nn
