#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tapegrad/apps/train/plan/opened_models.h"
#include "tapegrad/apps/train/plan/train_options.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::gpt {

// From arguments to the plan of a run.

struct TextFacts {
  std::int64_t vocab_size = 0;
  std::string tokenizer = {};     // as --tokenizer would name it, for options that do not
  std::int64_t train_tokens = 0;  // of texts; 0: unknown, and of conversations
  std::optional<std::int64_t> batches_per_epoch = {};  // nothing: unknown, and --epochs stays
};

// What a plan depends on beside the arguments. What is not known yet leaves options open.
struct Facts {
  bool corpus_is_tokens = false;  // --corpus names folders of tokens, and nothing else
  bool is_chat = false;           // it learns conversations or pairs: see with_folders()
  OpenedModels models = {};
  std::optional<Precision> faster = {};  // for --dtype auto
  std::optional<TextFacts> text = {};
  // Fingerprints of the weights that the run starts from, and of its teacher's, where it keeps
  // them.
  std::optional<std::string> base = {}, teacher = {};
  // For --recompute auto, which needs it: true if the machine has room for a step that takes so
  // much. And the room that it has, for people.
  std::function<bool(const run::MemoryEstimate&)> fits = {};
  std::string room = {};
};

// The options of a run with a value for all that its facts decide, and what else follows from them.
// Nothing changes it.
struct Plan : Options {
  explicit Plan(Options options) : Options(std::move(options)) {}

  OpenedModels models;
  bool is_chat = false;               // see Facts
  std::string preset_note;            // what a preset that is sized went by; empty: it is not
  std::string recompute_note;         // why --recompute auto has chosen so; empty: it has not
  std::int64_t batches_of_ranks = 1;  // of a step of the processes of --plan
  // What --max-minutes give at most, in epochs and, once the text is known, in steps.
  std::optional<double> most_epochs = {};
  std::optional<std::int64_t> most_iters = {};
};

// UsageError for arguments that contradict each other, whatever the facts are.
void check_arguments(const Arguments& arguments);

// The options of the text, whose --corpus may name folders of --data. Their tokenizer is that of
// the folders, whatever the preset has.
run::TextOptions with_folders(const Arguments& arguments, bool corpus_is_tokens);

// The only way from arguments to a plan. It is pure, but that for --recompute auto it runs a step
// dry, which with --weights reads the weights: it reads no text, and looks at no path. UsageError
// for arguments that contradict the models. More facts make more of a plan: without those of the
// text it is as much as a call can be refused by, and a text be read.
Plan resolve(const Arguments& arguments, const Facts& facts);

// The part of it that goes by --init-from PATH: the options of the model and the tokenizer are
// those of the folder, but for dropout, which may be chosen anew. --block-size is the length in
// training, and cuts learned positions alone. UsageError for options that contradict them, and for
// a block size that the model has no positions for.
void take_start(Plan& plan, const cli::GivenOptions& given);

}  // namespace tapegrad::gpt
