#include "tapegrad/data/tokenize/bpe/byte_pairs.h"

#include <algorithm>
#include <cstdint>

namespace tapegrad::data {

void BytePairs::encode(std::string_view piece, std::vector<Token>& out) const {
  if (!whole_.empty()) {
    if (const auto token = whole_.find(piece); token != whole_.end()) {
      out.push_back(token->second);
      return;
    }
  }
  const auto token_of = [&](char byte) { return token_of_byte_[static_cast<std::uint8_t>(byte)]; };
  if (piece.size() <= TokenMerges::kMostShort) {
    std::array<Token, TokenMerges::kMostShort> start;
    std::transform(piece.begin(), piece.end(), start.begin(), token_of);
    merges_.apply({start.data(), piece.size()}, out);
    return;
  }
  std::vector<Token> start(piece.size());
  std::transform(piece.begin(), piece.end(), start.begin(), token_of);
  merges_.apply(start, out);
}

}  // namespace tapegrad::data
