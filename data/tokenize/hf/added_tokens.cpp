#include "tapegrad/data/tokenize/hf/added_tokens.h"

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

void AddedTokens::add(const std::string& content, Token token, bool special) {
  check(!content.empty(), "the added token {} is empty", token);
  check(content.size() <= kMaxBytes, "the added token {} has {} bytes; {} are the most", token,
        content.size(), +kMaxBytes);
  added_.emplace(content, Added{token, special});
  std::vector<std::size_t>& lengths = lengths_[static_cast<unsigned char>(content.front())];
  const auto place = std::find_if(lengths.begin(), lengths.end(),
                                  [&](std::size_t length) { return length <= content.size(); });
  if (place == lengths.end() || *place != content.size()) lengths.insert(place, content.size());
}

AddedTokens::Match AddedTokens::first(std::string_view text, bool allow_special) const {
  for (const std::size_t length : lengths_[static_cast<unsigned char>(text.front())]) {
    if (length > text.size()) continue;
    const auto found = added_.find(text.substr(0, length));
    if (found != added_.end() && (allow_special || !found->second.special)) {
      return {length, found->second.token};
    }
  }
  return {};
}

void AddedTokens::cut(std::string_view text, bool allow_special,
                      const std::function<void(Token)>& found,
                      const std::function<void(std::string_view)>& between) const {
  for (std::size_t at = 0; at < text.size();) {
    const Match match = first(text.substr(at), allow_special);
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    if (at > 0) between(text.substr(0, at));
    found(match.token);
    text.remove_prefix(at + match.bytes);
    at = 0;
  }
  if (!text.empty()) between(text);
}

}  // namespace tapegrad::data
