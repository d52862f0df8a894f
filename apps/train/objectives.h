#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

namespace tapegrad::gpt {

// What a run learns: pairs, conversations or a text, and beside these from a teacher.
std::unique_ptr<const run::DecoderObjective> objective_of(const Plan& plan);

// Of the teacher's weights, for a text of that tokenizer. Nothing if there is no teacher. Error if
// it does not fit the model, or its weights have changed since the run began.
std::optional<std::string> fingerprint_of_teacher(const Plan& plan,
                                                  const data::Tokenizer& tokenizer);

}  // namespace tapegrad::gpt
