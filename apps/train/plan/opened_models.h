#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tapegrad/apps/train/plan/train_options.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::gpt {

// The models of other folders that a run needs: facts, of which the options name the paths.
struct OpenedModels {
  // Of --init-from PATH; with ChatML if it learns conversations and has no template.
  std::shared_ptr<const run::OpenedModel> start;
  std::string start_path, checkpoint;   // which is absolute, and of it
  std::string tokenizer;                // of it, as --tokenizer would name it
  std::optional<run::Adapter> adapter;  // of --adapter
  std::string adapter_path;
  std::shared_ptr<const run::OpenedModel> teacher;  // of --teacher
  std::string teacher_path;
};

// Opens them. Reads no weights. UsageError for options that need --init-from PATH without it, for
// folders that a run cannot start from, for another --tokenizer than that of the start, and for a
// run to resume that had no teacher, or another. `is_chat`: it learns conversations or pairs.
OpenedModels open_models(const Arguments& arguments, bool is_chat);

}  // namespace tapegrad::gpt
