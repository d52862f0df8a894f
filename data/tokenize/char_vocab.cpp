#include "tapegrad/data/tokenize/char_vocab.h"

#include <algorithm>
#include <bitset>
#include <memory>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

namespace {

constexpr std::size_t kCodePointCount = 0x110000;

// Calls use(code_point, offset) for every character. Error, naming `what`, for bytes that are not
// UTF-8.
template <class Use>
void for_each_char(std::string_view text, std::string_view what, Use use) {
  for (std::size_t i = 0; i < text.size();) {
    if (const auto byte = static_cast<std::uint8_t>(text[i]); byte < 0x80) {  // ASCII: the fast way
      use(byte, i++);
      continue;
    }
    const Utf8Char c = first_char(text.substr(i));
    check(c.kind == Utf8Char::Kind::valid, "[tokenizer] {} is not UTF-8 at byte {} (0x{:02x})",
          what, i, static_cast<std::uint8_t>(text[i]));
    use(c.code_point, i);
    i += c.size;
  }
}

// The first characters of the vocabulary, for messages.
std::string sample_of(const std::u32string& code_points) {
  constexpr std::size_t kMaxShown = 100;
  std::string text;
  for (const char32_t c : code_points.substr(0, kMaxShown)) {
    text += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c < ' ' ? describe_char(c) : to_utf8(c);
  }
  return text + (code_points.size() > kMaxShown ? "…" : "");
}

}  // namespace

CharVocabulary CharVocabulary::of_corpus(std::span<const std::string_view> documents,
                                         bool separated) {
  const auto seen = std::make_unique<std::bitset<kCodePointCount>>();
  char32_t last = 0;
  const auto see = [&](char32_t c, std::size_t) {
    if (seen->test(c)) return;  // reading is faster than writing the same again
    seen->set(c);
    last = std::max(last, c);
  };
  for (const std::string_view text : documents) for_each_char(text, "the corpus", see);
  if (separated) see('\n', 0);
  std::string characters;
  for (char32_t c = 0; c <= last; ++c) {
    if (seen->test(c)) {
      characters += to_utf8(c);
    }
  }
  return CharVocabulary(characters);
}

CharVocabulary::CharVocabulary(std::string_view characters) : characters_(characters) {
  check(!characters.empty(), "[tokenizer] a character vocabulary needs at least one character");
  of_ascii_.fill(kUnknown);
  for_each_char(characters_, "the list of characters", [&](char32_t c, std::size_t offset) {
    check(code_points_.empty() || c > code_points_.back(),
          "[tokenizer] the list of characters is not ascending: {} after {}", describe_char(c),
          describe_char(code_points_.empty() ? c : code_points_.back()));
    if (c < of_ascii_.size()) {
      of_ascii_[c] = static_cast<Token>(code_points_.size());
    }
    begin_of_.push_back(offset);
    code_points_ += c;
  });
  begin_of_.push_back(characters_.size());
}

std::string_view CharVocabulary::bytes(Token token) const {
  const auto i = static_cast<std::size_t>(token);
  return std::string_view(characters_).substr(begin_of_[i], begin_of_[i + 1] - begin_of_[i]);
}

void CharVocabulary::encode(std::string_view text, std::vector<Token>& tokens) const {
  for_each_char(text, "the text", [&](char32_t c, std::size_t offset) {
    Token token = kUnknown;
    if (c < of_ascii_.size()) {
      token = of_ascii_[c];
    } else if (const std::size_t i = static_cast<std::size_t>(
                   std::lower_bound(code_points_.begin(), code_points_.end(), c) -
                   code_points_.begin());
               i < code_points_.size() && code_points_[i] == c) {
      token = static_cast<Token>(i);
    }
    if (token == kUnknown) {
      fail_unknown(c, offset);
    }
    tokens.push_back(token);
  });
}

void CharVocabulary::fail_unknown(char32_t code_point, std::size_t offset) const {
  fail(
      "[tokenizer] {} at byte {} is not in the vocabulary, which is made of the {} characters of "
      "the training corpus: {}",
      describe_char(code_point), offset, size(), sample_of(code_points_));
}

// In UTF-8, the order of the bytes is that of the characters.
std::optional<std::string> characters_of(std::span<const std::string> tokens) {
  std::string characters;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) return std::nullopt;
    const Utf8Char c = first_char(tokens[i]);
    if (c.kind != Utf8Char::Kind::valid || c.size != tokens[i].size()) return std::nullopt;
    if (i > 0 && tokens[i] <= tokens[i - 1]) return std::nullopt;
    characters += tokens[i];
  }
  return characters;
}

}  // namespace tapegrad::data
