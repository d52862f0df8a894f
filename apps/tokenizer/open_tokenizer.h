#pragma once

#include <string>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::tokenizers {

// The tokenizer that a name or path stands for: "gpt2"; a tokenizer.json, ours or Hugging Face's;
// a folder that has one; or a model, such as a GGUF, whose files have the tokenizer in them. A file
// or folder that is called gpt2 goes first. Error if it is none of these.
data::Tokenizer open_tokenizer(const std::string& name);

}  // namespace tapegrad::tokenizers
