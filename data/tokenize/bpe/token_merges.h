#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/data/tokenize/bpe/number_map.h"
#include "tapegrad/data/tokenize/bpe/token_chain.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Which pairs of neighbouring tokens become which token, and which of them go first.
class TokenMerges {
 public:
  void reserve(std::size_t merges) { made_.reserve(merges); }
  // The next merge, which goes behind all earlier ones. False, and no change, if the pair is merged
  // already.
  bool add(Merge pair, Token token) { return add(pair, token, made_.size()); }
  // One of less `rank` goes first; of equal ranks the leftmost.
  bool add(Merge pair, Token token, std::size_t rank);
  // The token that a pair makes, or -1.
  Token merged(Merge pair) const;

  // Appends what becomes of `start`: while any pair can merge, the merge that goes first is applied
  // at its leftmost position. Takes linear time, nearly, where training made the merges. Returns
  // its work: how many positions were looked at, over all merges.
  std::size_t apply(std::span<const Token> start, std::vector<Token>& out) const;

  // Up to this many tokens, searching all of them for each merge is faster than keeping lists.
  static constexpr std::size_t kMostShort = 32;

 private:
  // A merge's rank, and below it the token that it makes.
  using Made = std::uint64_t;
  using Rank = std::uint32_t;
  static constexpr Made kNone = NumberMap::kNone;
  static Token token_of(Made made) { return static_cast<Token>(made & UINT32_MAX); }
  static Rank rank_of(Made made) { return static_cast<Rank>(made >> 32); }
  Made made_of(Merge pair) const;

  std::size_t apply_short(std::span<const Token> start, std::vector<Token>& out) const;
  std::size_t apply_long(std::span<const Token> start, std::vector<Token>& out) const;

  NumberMap made_;  // by pair_key()
};

}  // namespace tapegrad::data
