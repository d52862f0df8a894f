#pragma once

#include <string>
#include <string_view>

#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::gpt {

// The facts that a plan depends on, in the order in which they become known.

// Those that a call names: models of other folders are opened, and no text is read.
Facts facts_of(const Arguments& arguments);
// Those of a text that is read, and of these processes (null: this one), by a plan without them.
// Reads the weights whose fingerprints are kept. Error if these are not those that they were when
// the run began, or if the teacher does not fit the model.
Facts with_text(Facts known, const Plan& plan, const run::TextData& data,
                const Processes* processes);
// In their place, as far as it is known before a text is read: the size of the vocabulary. Reads
// the text only if that decides it.
Facts with_vocabulary(Facts known, const Plan& plan);
// The memory that the machine has, for --recompute auto.
Facts with_room(Facts known, const Plan& plan, const Processes* processes);

// The text that is learnt without --corpus: tiny shakespeare, which is part of the program.
run::Text default_text();
Product product_of(const Options& options);  // the largest of a block
// The plan must outlive it. Without the loss, which is an objective's.
run::StepOptions step_options(const Plan& plan);
run::MemoryEstimate memory_of(const Plan& plan);
// run::export_obstacle() of the model, and what to do about it.
std::string export_obstacle(const nn::DecoderConfig& model, std::string_view preset);

}  // namespace tapegrad::gpt
