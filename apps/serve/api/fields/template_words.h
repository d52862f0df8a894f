#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// Which words a template has: the names of members of messages, say, since a template that reads a
// member says its name. Each word of a request is looked for once; of more than a thousand
// different ones, the further are none of the template's.
class TemplateWords {
 public:
  explicit TemplateWords(const data::ChatTemplate& chat) : chat_(chat) {}

  bool has(std::string_view word) {
    constexpr std::size_t kMostWords = 1000;
    const auto found = found_.find(word);
    if (found != found_.end()) return found->second;
    if (found_.size() == kMostWords) return false;
    return found_.emplace(word, finds(word)).first->second;
  }

  // Takes the members of an object that the template names for known; true if there are any.
  bool read(Fields& fields) {
    bool any = false;
    for (const std::string_view name : fields.unknown()) {
      if (!has(name)) continue;
      fields.find(name);
      any = true;
    }
    return any;
  }

 private:
  bool finds(std::string_view word) const {
    const std::string& source = chat_.source();
    const auto in_word = [&](std::size_t at) {
      const char c = at < source.size() ? source[at] : ' ';
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    for (std::size_t at = 0; (at = source.find(word, at)) != source.npos; ++at) {
      if (!word.empty() && (at == 0 || !in_word(at - 1)) && !in_word(at + word.size())) return true;
    }
    return false;
  }

  const data::ChatTemplate& chat_;
  std::map<std::string, bool, std::less<>> found_ = {};
};

}  // namespace tapegrad::serve
