#include "tapegrad/data/tokenize/hf/internal/token_texts.h"

#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"

namespace tapegrad::data {

std::optional<std::string> TokenTexts::bytes_of(std::string_view shown) const {
  if (byte_level) return bytes_of_shown(shown);
  if (byte_fallback) {
    if (const auto byte = byte_of_shown(shown)) return std::string(1, static_cast<char>(*byte));
  }
  std::string text(shown);
  for (const auto& [from, to] : replaced) {
    std::string made;
    std::size_t done = 0;
    for (std::size_t at; (at = text.find(from, done)) != text.npos; done = at + from.size()) {
      made.append(text, done, at - done).append(to);
    }
    text = made.append(text, done);
  }
  return text;
}

}  // namespace tapegrad::data
