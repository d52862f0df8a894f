#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// One token per character (Unicode code point), numbered in ascending order, as in nanoGPT's
// shakespeare_char.
class CharVocabulary {
 public:
  // The distinct characters of a corpus; an empty one, or one that is not UTF-8, is an Error.
  static CharVocabulary of_corpus(std::string_view corpus);

  // `characters` must be UTF-8 with at least one character, in ascending order, each once.
  explicit CharVocabulary(std::string_view characters);

  int64_t size() const { return static_cast<int64_t>(code_points_.size()); }
  const std::string& characters() const { return characters_; }
  std::string_view bytes(Token token) const;  // `token` must be in [0, size())

  // A character that is not in the vocabulary, or bytes that are no character, are an Error.
  std::vector<Token> encode(std::string_view text) const;

 private:
  [[noreturn]] void fail_unknown(char32_t code_point, size_t offset) const;

  std::string characters_;           // all, in order
  std::vector<size_t> begin_of_;     // where each one begins in characters_, and the end
  std::u32string code_points_;       // the same, ascending
  std::array<Token, 128> of_ascii_;  // `unknown` for those that are missing
  static constexpr Token unknown = -1;
};

}  // namespace tapegrad::data
