#pragma once

#include <cstdint>

#include "nn/gpt.h"
#include "nn/transformer.h"

namespace tapegrad::apps {

// Bytes of tensors that training in f32 holds at its peak.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

// For batches of `batch_size` sequences of block_size tokens. A little above what is used, because
// the activations go while the gradients come.
MemoryEstimate estimate_memory(const nn::GPTConfig& config, int64_t batch_size);

// For batches of `batch_size` pairs of block_size tokens each.
MemoryEstimate estimate_memory(const nn::TransformerConfig& config, int64_t batch_size);

// Error if the machine has less memory than that.
void check_memory(const MemoryEstimate& estimate);

}  // namespace tapegrad::apps
