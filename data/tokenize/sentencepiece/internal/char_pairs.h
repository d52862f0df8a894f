#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/tokenize/bpe/number_map.h"
#include "tapegrad/data/tokenize/bpe/piece_model.h"
#include "tapegrad/data/tokenize/bpe/text_hash.h"
#include "tapegrad/data/tokenize/bpe/token_merges.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"
#include "tapegrad/data/tokenize/text_tree.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// A byte-pair encoding whose first tokens are characters, as SentencePiece's BPE and Hugging Face's
// BPE without a byte-level alphabet. A character that is no token is unknown: see UnknownText.
class CharPairs : public PieceModel {
 public:
  // `character`: one, in UTF-8.
  void set_char(std::string_view character, Token token);
  void set_unknown(const UnknownText& unknown);
  // A user-defined piece: where a text has it, the longest first, it is this token, which does not
  // merge.
  void add_symbol(std::string_view text, Token token);
  void reserve(std::size_t merges) { merges_.reserve(merges); }
  // Pieces that are a token as a whole, whatever the merges say (Hugging Face's ignore_merges).
  void add_whole(std::string_view piece, Token token) { whole_.emplace(piece, token); }
  // A merge of two tokens, and the texts of these, which are not empty: see TokenMerges::add. After
  // set_unknown().
  bool add(Merge pair, std::string_view left, std::string_view right, Token token,
           std::size_t rank);

  void encode(std::string_view piece, std::vector<Token>& out) const override;
  // Ends between two characters that no merge joins. So a text without spaces between words, or a
  // whole document, takes linear time, and its parts are repeated words.
  std::size_t first_part(std::string_view piece) const override;

 private:
  using Char = std::uint32_t;  // its bytes in UTF-8
  static std::size_t first_char(std::string_view piece, Char& character);
  void set_join(Char left, Char right);
  bool may_join(Char left, Char right) const;

  // A bit for each pair of characters that a merge joins, by a hash of both: some pairs that are
  // not joined are taken for such, which costs time alone.
  static constexpr int kJoinBits = 20;
  static std::size_t place_of(Char left, Char right) {
    return first_place(std::uint64_t{left} << 32 | right, kJoinBits);
  }
  std::vector<bool> joins_ = std::vector<bool>(std::size_t{1} << kJoinBits);
  std::array<std::bitset<128>, 128> ascii_joins_;  // exactly

  NumberMap chars_;
  std::array<Token, 128> ascii_ = [] {
    std::array<Token, 128> none{};
    none.fill(-1);
    return none;
  }();
  TokenMerges merges_;
  TextTree symbols_;
  UnknownText unknown_;
  bool cuts_ = false;  // first_part() is less than all
  std::unordered_map<std::string, Token, TextHash, std::equal_to<>> whole_;
};

}  // namespace tapegrad::data
