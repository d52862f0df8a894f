#pragma once

#include <functional>
#include <optional>

#include "tapegrad/apps/train/plan.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::gpt {

// train-gpt --preferences: what the model is compared with.

// The model without its adapters, on the same weights; or, without adapters, the model that the run
// started from. Nothing for a loss that has no reference.
std::optional<nn::Decoder> reference_model(const Plan& options, const nn::Decoder& gpt);

// Adds the memory that a step of such a run needs, where it differs from that on a text.
void add_preference_memory(const Plan& options, run::MemoryOptions& memory);

// The loss of random tokens, for steps that are measured (bench::TrialOptions). The options must
// live as long as it.
std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor& targets, Rng*)>
preference_trial(const Plan& options);

}  // namespace tapegrad::gpt
