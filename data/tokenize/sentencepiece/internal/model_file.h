#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data {

// The numbers of sentencepiece_model.proto, which GGUF has, too.
enum PieceType : std::int64_t {
  kNormalPiece = 1,
  kUnknownPiece,
  kControlPiece,
  kUserDefinedPiece,
  kUnusedPiece,
  kBytePiece
};

// A tokenizer.model of SentencePiece: the fields of ModelProto that ids depend on, with its
// defaults. The id of a piece is its place.
struct SentencePieceModel {
  std::vector<std::string> pieces;
  std::vector<double> scores;  // finite
  std::vector<std::int64_t> types;
  enum Method : std::uint64_t { kUnigram = 1, kBpe } method = kUnigram;
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string unknown_surface = " \u2047 ";  // the text of the unknown piece
  // The normalizer: its rules as Charsmap reads them, or none; ▁ before a text; white space at the
  // ends is left out, and of several spaces one stays.
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;

  // The place of the piece of this type and text.
  std::optional<std::size_t> find(PieceType type, std::string_view text) const;
};

// Error if the bytes are no such file, or for what is not supported: words or characters as pieces,
// ▁ behind words, unused pieces, rules for decoding. That of a text that is there twice is for the
// vocabulary to find.
SentencePieceModel parse_sentencepiece(std::string_view bytes);

}  // namespace tapegrad::data
