#pragma once

#include "tapegrad/run/models/formats/foreign_model.h"

namespace tapegrad::run {

// A model folder in Hugging Face's layout: config.json, model.safetensors (or
// model.safetensors.index.json and the files that it names), and tokenizer.json (or vocab.json and
// merges.txt). hf_config.h has the models that are read, and what is refused. A tensor that is
// missing or that the model does not have is refused, too. The files may be links, as in Hugging
// Face's cache; those that go out with the model as they are, inside of it alone.

bool is_hf_folder(const std::filesystem::path& folder);

// A vocabulary that is smaller than the model's gets tokens without text up to its size.
ForeignModel open_hf(const std::filesystem::path& folder);

}  // namespace tapegrad::run
