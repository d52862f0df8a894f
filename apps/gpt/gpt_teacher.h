#pragma once

#include <functional>
#include <optional>

#include "tapegrad/apps/gpt/gpt_options.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::gpt {

// train-gpt --teacher.

// Opens the teacher, if there is one.
void take_teacher(Options& options);
// Error if the teacher does not fit the model, or its weights have changed since the run began.
void know_teacher(Options& options, const data::Tokenizer& tokenizer);
// Reads it.
std::optional<nn::Decoder> teacher_model(const Options& options);

// Adds the memory that a step of such a run needs; gives its loss of random tokens: see
// gpt_preferences.h.
void add_teacher_memory(const Options& options, run::MemoryOptions& memory);
std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor& targets, Rng*)>
teacher_trial(const Options& options);

}  // namespace tapegrad::gpt
