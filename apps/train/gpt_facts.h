#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tapegrad/apps/train/gpt_options.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::gpt {

// From the options that a person chose to the plan of a run, which has a value for everything.

// What the options that arguments leave open depend on.
struct Facts {
  std::int64_t vocab_size = 0;
  std::string tokenizer = {};     // as --tokenizer would name it, for options that do not
  std::int64_t train_tokens = 0;  // of texts; 0: unknown, and of conversations
  std::optional<std::int64_t> batches_per_epoch = {};  // nothing: unknown, and --epochs stays
  // Fingerprints of the weights that the run starts from, and of its teacher's, where it keeps
  // them.
  std::optional<std::string> base = {}, teacher = {};
  // For --recompute auto, which needs it: true if the machine has room for a step that takes so
  // much. And the room that it has, for people.
  std::function<bool(const run::MemoryEstimate&)> fits = {};
  std::string room = {};
};

// Of a text that is read, and of these processes (null: this one). Reads the weights whose
// fingerprints are kept. Error if these are not those that they were when the run began, or if the
// teacher does not fit the model.
Facts facts_of(const Options& said, const run::TextData& data, const Processes* processes);
// The same before a text is read, as far as it is known then. Reads the text only if that decides
// the size of the vocabulary.
Facts facts_without_text(const Options& said);

// The options with a value for all that these facts decide: nothing changes them after this. It
// reads no text, and of models no weights.
Options resolve(const Options& said, const Facts& facts);

// What is learnt without --corpus: tiny shakespeare, which is part of the program.
run::Text default_text();
Product product_of(const Options& options);  // the largest of a block
run::MemoryEstimate memory_of(const Options& plan);
// run::export_obstacle() of the model, and what to do about it.
std::string export_obstacle(const Options& options);

}  // namespace tapegrad::gpt
