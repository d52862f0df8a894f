#pragma once

#include "apps/train_options.h"
#include "nn/params.h"

namespace tapegrad::apps {

// Bytes that training holds at its peak.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

// Parameters of a model that is not made yet.
int64_t parameter_count(const nn::GPTConfig& config);

MemoryEstimate estimate_memory(const nn::GPTConfig& config, int64_t batch_size);

// Error if the machine does not have the memory.
void check_memory(const MemoryEstimate& estimate);

}  // namespace tapegrad::apps
