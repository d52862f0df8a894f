#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

namespace tapegrad::data {

// A tokenizer.json, or what other files make of one.
struct FoundFile {
  HfFile file;
  std::string text;                      // empty: file.json_text() makes it
  std::optional<std::int64_t> end = {};  // the token that ends texts, if a tokenizer.model says it
};

// That of a folder of Hugging Face's: tokenizer.json, vocab.json with merges.txt, or
// tokenizer.model; the first of these that is there, with number_added_tokens(),
// add_outside_tokens() and apply_tokenizer_config(). A tokenizer.model
// is used as transformers' LlamaTokenizer does: its bos_piece is before a text if
// tokenizer_config.json says "add_bos_token", or does not and its class is Llama's or Gemma's, or
// there is none.
FoundFile hf_file_in(const std::filesystem::path& folder);

// That of a file: a tokenizer.json, or a SentencePiece model whose name ends in .model, as
// SentencePiece uses it: nothing is before a text.
FoundFile hf_file_at(const std::filesystem::path& path);

}  // namespace tapegrad::data
