#include "tapegrad/data/tokenize/added_tokens.h"

#include <algorithm>
#include <utility>

namespace tapegrad::data {

void AddedTokens::add(std::string content, Token token, bool special) {
  std::vector<Added>& list = by_first_byte_[static_cast<unsigned char>(content.front())];
  const auto place = std::find_if(list.begin(), list.end(), [&](const Added& other) {
    return other.content.size() < content.size();
  });
  list.insert(place, {std::move(content), token, special});
}

const AddedTokens::Added* AddedTokens::first(std::string_view text, bool allow_special) const {
  for (const Added& added : by_first_byte_[static_cast<unsigned char>(text.front())]) {
    if ((allow_special || !added.special) && text.starts_with(added.content)) return &added;
  }
  return nullptr;
}

void AddedTokens::cut(std::string_view text, bool allow_special,
                      const std::function<void(Token)>& found,
                      const std::function<void(std::string_view)>& between) const {
  for (std::size_t at = 0; at < text.size();) {
    const Added* added = first(text.substr(at), allow_special);
    if (added == nullptr) {
      ++at;
      continue;
    }
    if (at > 0) between(text.substr(0, at));
    found(added->token);
    text.remove_prefix(at + added->content.size());
    at = 0;
  }
  if (!text.empty()) between(text);
}

}  // namespace tapegrad::data
