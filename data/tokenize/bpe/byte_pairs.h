#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/tokenize/bpe/piece_model.h"
#include "tapegrad/data/tokenize/bpe/text_hash.h"
#include "tapegrad/data/tokenize/bpe/token_merges.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// A byte-level byte-pair encoding: the token of each byte, and which pairs of tokens become which
// token, the merges that were added first going first.
class BytePairs : public PieceModel {
 public:
  using ByteTokens = std::array<Token, 256>;

  void set_bytes(const ByteTokens& token_of_byte) { token_of_byte_ = token_of_byte; }
  void reserve(std::size_t merges) { merges_.reserve(merges); }
  // Pieces that are a token as a whole, whatever the merges say (Hugging Face's ignore_merges).
  void add_whole(std::string_view piece, Token token) { whole_.emplace(piece, token); }
  // See TokenMerges.
  bool add(Merge pair, Token token) { return merges_.add(pair, token); }
  Token merged(Merge pair) const { return merges_.merged(pair); }

  // `piece`: any bytes.
  void encode(std::string_view piece, std::vector<Token>& out) const override;

 private:
  ByteTokens token_of_byte_{};
  TokenMerges merges_;
  std::unordered_map<std::string, Token, TextHash, std::equal_to<>> whole_;
};

}  // namespace tapegrad::data
