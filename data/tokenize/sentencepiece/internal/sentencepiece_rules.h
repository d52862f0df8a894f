#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>

#include "tapegrad/data/tokenize/hf/internal/hf_vocabulary.h"
#include "tapegrad/data/tokenize/sentencepiece/text_rules.h"

namespace tapegrad::data {

// The member "sentencepiece" of a model, which hf_of_pieces.h describes.
struct SentencePieceRules {
  TextRules text;
  std::unordered_set<Token> silent, symbols;
  std::optional<Token> unknown;  // the token that is written as `unknown_surface`
  std::string unknown_surface;
};

// Nothing if the file has no such member. `text` gets its charsmap from the normalizer, and its
// symbols from add_symbols().
std::optional<SentencePieceRules> read_sentencepiece_rules(const nlohmann::json& file);
void add_symbols(SentencePieceRules& rules, const HfVocabulary& vocabulary);

}  // namespace tapegrad::data
