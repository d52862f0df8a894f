#pragma once

#include <string_view>

namespace tapegrad::run {

// The steps of well-known models' tokenizers before bytes are merged. GGUF has names
// for these where a tokenizer.json says each step, and transformers knows some by the family.
struct KnownPreTokenizer {
  std::string_view name;   // of tokenizer.ggml.pre
  std::string_view title;  // whose it is, for messages
  std::string_view steps;  // as steps_of() describes them
  bool nfc = false;        // which llama.cpp leaves out, and Qwen2's own tokenizer does
  bool ignores_merges = false;
  bool begins = false;  // texts begin with the begin token unless the file says otherwise
};

}  // namespace tapegrad::run
