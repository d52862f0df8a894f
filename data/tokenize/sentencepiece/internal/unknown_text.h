#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// The tokens of characters that a vocabulary lacks: those of their bytes, if it has all of
// these (SentencePiece's byte_fallback), or else the unknown token.
struct UnknownText {
  static constexpr Token kNone = -1;
  std::array<Token, 256> of_byte = [] {
    std::array<Token, 256> none{};
    none.fill(kNone);
    return none;
  }();
  std::optional<Token> token;
  bool fused = false;  // neighbours become one unknown token

  bool has_all_bytes() const {
    return std::find(of_byte.begin(), of_byte.end(), kNone) == of_byte.end();
  }
  // False, and no change, if a byte has no token.
  bool append_bytes(std::string_view text, std::vector<Token>& out) const {
    const std::size_t begin = out.size();
    for (const char c : text) {
      const Token token_of_byte = of_byte[static_cast<std::uint8_t>(c)];
      if (token_of_byte == kNone) {
        out.resize(begin);
        return false;
      }
      out.push_back(token_of_byte);
    }
    return true;
  }
};

// The byte of a token written <0x0A>.
std::optional<std::uint8_t> byte_of_shown(std::string_view shown);

}  // namespace tapegrad::data
