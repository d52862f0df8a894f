#pragma once

#include <nlohmann/json.hpp>

#include "tapegrad/data/tokenize/hf/internal/token_texts.h"
#include "tapegrad/data/tokenize/hf/steps/normalizer.h"
#include "tapegrad/data/tokenize/hf/steps/pre_tokenizer.h"

namespace tapegrad::data {

// The steps around the model, as members of a tokenizer.json name them. Error, with the part, for
// what is not known and would change ids.
Normalizer read_normalizer(const nlohmann::json& normalizer);
struct PreTokenizerOfFile {
  PreTokenizer steps;
  bool byte_level = false;  // ends with the characters that stand for bytes
};
PreTokenizerOfFile read_pre_tokenizer(const nlohmann::json& pre_tokenizer);
TokenTexts read_decoder(const nlohmann::json& decoder);

}  // namespace tapegrad::data
