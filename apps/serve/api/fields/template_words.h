#pragma once

#include <cstddef>
#include <functional>
#include <map>
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

// The same for the names that one request has. Each is looked for once; of more than a thousand
// different ones, the further are none of the template's.
class TemplateWords {
 public:
  explicit TemplateWords(const data::ChatTemplate& chat) : chat_(chat) {}

  bool has(std::string_view word) {
    constexpr std::size_t kMostWords = 1000;
    const auto found = found_.find(word);
    if (found != found_.end()) return found->second;
    if (found_.size() == kMostWords) return false;
    return found_.emplace(word, names(chat_, word)).first->second;
  }

 private:
  const data::ChatTemplate& chat_;
  std::map<std::string, bool, std::less<>> found_ = {};
};

}  // namespace tapegrad::serve
