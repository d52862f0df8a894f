#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tapegrad/apps/train/plan.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::gpt {

// train-gpt --teacher.

// Of the teacher's weights, for a text of that tokenizer. Nothing if there is no teacher. Error if
// it does not fit the model, or its weights have changed since the run began.
std::optional<std::string> fingerprint_of_teacher(const Plan& options,
                                                  const data::Tokenizer& tokenizer);
// Reads it.
std::optional<nn::Decoder> teacher_model(const Plan& options);

// Adds the memory that a step of such a run needs; gives its loss of random tokens: see
// gpt_preferences.h.
void add_teacher_memory(const Plan& options, run::MemoryOptions& memory);
std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor& targets, Rng*)>
teacher_trial(const Plan& options);

}  // namespace tapegrad::gpt
