#pragma once

#include <string>
#include <string_view>

#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// True if the template has this word: the name of a member of messages, say, since a template that
// reads a member says its name.
inline bool names(const data::ChatTemplate& chat, std::string_view word) {
  const std::string& source = chat.source();
  const auto in_word = [&](std::size_t at) {
    const char c = at < source.size() ? source[at] : ' ';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = 0; (at = source.find(word, at)) != source.npos; ++at) {
    if (!word.empty() && (at == 0 || !in_word(at - 1)) && !in_word(at + word.size())) return true;
  }
  return false;
}

}  // namespace tapegrad::serve
