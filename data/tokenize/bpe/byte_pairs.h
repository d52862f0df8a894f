#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/bpe/text_hash.h"
#include "tapegrad/data/tokenize/bpe/token_chain.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// The merges of a byte-level byte-pair encoding: the token of each byte, and which pairs of tokens
// become which token, the merges that were added first going first. It encodes one piece of text,
// across whose borders no token reaches.
class BytePairs {
 public:
  using ByteTokens = std::array<Token, 256>;

  void set_bytes(const ByteTokens& token_of_byte) { token_of_byte_ = token_of_byte; }
  void reserve(std::size_t merges) { made_.reserve(merges); }
  // Pieces that are a token as a whole, whatever the merges say (Hugging Face's ignore_merges).
  void add_whole(std::string_view piece, Token token) { whole_.emplace(piece, token); }
  // The next merge. False, and no change, if the pair is merged already.
  bool add(Merge pair, Token token);
  // The token that a pair makes, or -1.
  Token merged(Merge pair) const;

  // Appends the tokens of `piece`, any bytes: while any pair can merge, the earliest merge is
  // applied at its leftmost position. Takes linear time, nearly, where training made the merges.
  void encode(std::string_view piece, std::vector<Token>& out) const;

 private:
  // A merge's place in the order, and below it the token that it makes: the least one goes first.
  using Made = std::uint64_t;
  static constexpr Made kNone = UINT64_MAX;
  static Token token_of(Made made) { return static_cast<Token>(made & UINT32_MAX); }
  Made made_of(Merge pair) const;

  void encode_short(std::string_view piece, std::vector<Token>& out) const;
  void encode_long(std::string_view piece, std::vector<Token>& out) const;

  // Up to this many bytes, searching the whole piece for each merge is faster than keeping lists.
  static constexpr std::size_t kMaxShortPiece = 32;

  ByteTokens token_of_byte_{};
  std::unordered_map<std::uint64_t, Made> made_;  // by pair_key()
  std::unordered_map<std::string, Token, TextHash, std::equal_to<>> whole_;
};

}  // namespace tapegrad::data
