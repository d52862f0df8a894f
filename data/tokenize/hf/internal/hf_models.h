#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "tapegrad/data/tokenize/bpe/piece_model.h"
#include "tapegrad/data/tokenize/hf/internal/hf_vocabulary.h"
#include "tapegrad/data/tokenize/hf/internal/token_texts.h"

namespace tapegrad::data {

struct SentencePieceRules;

// The member "model" of a tokenizer.json. Error, by name, for what is not known and would change
// ids. `own`: of a model that was SentencePiece's, or null.
std::shared_ptr<const PieceModel> read_piece_model(const nlohmann::json& model,
                                                   const HfVocabulary& vocabulary,
                                                   const TokenTexts& texts,
                                                   const SentencePieceRules* own);

}  // namespace tapegrad::data
