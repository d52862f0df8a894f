#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

namespace tapegrad::data {

struct SentencePieceModel;

// Pieces with scores, as SentencePiece's files and GGUF's have them.
struct ScoredPieces {
  std::span<const std::string> texts;  // by id
  std::vector<std::int64_t> types;     // PieceType
  std::vector<double> scores;
  bool unigram = false;  // or BPE
  bool byte_fallback = true;
  bool adds_space = true;      // before a text
  bool merges_symbols = true;  // BPE: user-defined pieces take part in merges
  std::optional<std::int64_t> unknown = {};
  nlohmann::json post_processor = {};
};

// A tokenizer.json with these pieces. Control pieces and the unknown one are special tokens,
// user-defined ones are added tokens that are not. Error if a text is there twice or is not for
// JSON, or if a byte has no piece with byte_fallback.
HfFile hf_file_of(const ScoredPieces& pieces);

// What a folder's other files say of its tokenizer.model.
struct SentencePieceUse {
  bool begins = false;        // the piece bos_piece is before a text
  bool prefix_first = false;  // ▁ before a text alone, not behind special tokens ("legacy": false)
};

// The same of a tokenizer.model. Hugging Face's steps can say nearly what SentencePiece does; what
// they cannot is "sentencepiece" of the model, which read_text_rules() and the models here take
// and Hugging Face's reader leaves out:
//   {"add_dummy_prefix": B, "remove_extra_whitespaces": B, "prefix_first": B,
//    "silent": [places of the pieces that no text becomes], "symbols": [those of user-defined
//    ones], "unknown": the place of the unknown piece, "unknown_surface": its text}
HfFile hf_file_of(const SentencePieceModel& model, const SentencePieceUse& use);
inline constexpr const char* kSentencePieceKey = "sentencepiece";

// Error unless it is a text that a tokenizer.json may have.
void check_text_of_json(const std::string& text);
// Puts the token `begin` before texts. Error if it is none.
nlohmann::json post_processor_of(std::span<const std::string> texts,
                                 std::optional<std::int64_t> begin);

}  // namespace tapegrad::data
