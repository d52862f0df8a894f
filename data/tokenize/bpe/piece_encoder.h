#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/bpe/piece_model.h"

namespace tapegrad::data {

// The tokens of pieces that were encoded before: text repeats its words. Each short piece has one
// place, which the latest one takes. So the memory is fixed, and nothing is ever searched. For one
// tokenizer, and one thread at a time.
class PieceCache {
 public:
  // Takes a size that fits a text of so many bytes, at most 4 MiB.
  explicit PieceCache(std::size_t text_bytes);

  static constexpr std::size_t kMostBytes = 23, kMostTokens = 9;
  using Words = std::array<std::uint64_t, 3>;

  struct Entry {
    Words key{};  // the piece's bytes, zeros, and its size in the last one; 0: none
    std::uint32_t count = 0;
    std::array<Token, kMostTokens> tokens;
  };
  static Words key_of(std::string_view piece);
  Entry& at(const Words& key);

 private:
  std::vector<Entry> entries_;
  int shift_;
};

// Encodes pieces one after the other.
class PieceEncoder {
 public:
  PieceEncoder(const PieceModel& model, PieceCache& cache, std::vector<Token>& tokens)
      : model_(model), cache_(cache), tokens_(tokens) {}

  void append(std::string_view piece);
  void append(Token token) { tokens_.push_back(token); }

 private:
  const PieceModel& model_;
  PieceCache& cache_;
  std::vector<Token>& tokens_;
};

}  // namespace tapegrad::data
