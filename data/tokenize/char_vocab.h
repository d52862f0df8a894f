#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// One token per character (Unicode code point), numbered in ascending order, as in nanoGPT's
// shakespeare_char.
class CharVocabulary {
 public:
  // The distinct characters of the documents of a corpus and, if something has to separate them, a
  // line break. Error if the corpus is empty or not UTF-8.
  static CharVocabulary of_corpus(std::span<const std::string_view> documents, bool separated);

  // `characters` must be UTF-8 with at least one character, in ascending order, each once.
  explicit CharVocabulary(std::string_view characters);

  std::int64_t size() const { return static_cast<std::int64_t>(code_points_.size()); }
  const std::string& characters() const { return characters_; }
  std::string_view bytes(Token token) const;  // `token` must be in [0, size())

  // Appends the tokens of a text. Error if it has a character that is not in the vocabulary, or is
  // not UTF-8.
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  [[noreturn]] void fail_unknown(char32_t code_point, std::size_t offset) const;

  std::string characters_;             // all characters in UTF-8, ascending
  std::vector<std::size_t> begin_of_;  // token i is characters_[begin_of_[i], begin_of_[i + 1])
  std::u32string code_points_;         // the same characters as code points
  std::array<Token, 128> of_ascii_;    // tokens of ASCII characters; kUnknown for missing ones
  static constexpr Token kUnknown = -1;
};

// The characters of tokens that are one each, in ascending order; nothing for other tokens.
std::optional<std::string> characters_of(std::span<const std::string> tokens);

}  // namespace tapegrad::data
