#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// GGUF's tokenizers of the kind "llama", SentencePiece's BPE: tokens and their scores. A text's
// characters merge to the token of the largest score, the leftmost first, and characters that are
// no token become bytes. Here they are read as a tokenizer.json that does so.

// gguf_tokenizer() for this kind.
data::Tokenizer read_scored_tokenizer(const std::shared_ptr<const GgufFile>& file,
                                      std::int64_t rows);

// True if a tokenizer.json is one that this kind may express: its decoder has tokens of bytes.
bool falls_back_to_bytes(const nlohmann::json& file);
// The scores of the tokens, of which there are so many. Error if llama.cpp would make other ids by
// any scores.
std::vector<double> scores_of_json(const nlohmann::json& file, std::size_t tokens);
// True if a space is put before a text and behind each special token. Error as above.
bool adds_space(const nlohmann::json& file);

}  // namespace tapegrad::run
