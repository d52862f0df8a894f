#include "tapegrad/data/tokenize/hf/added_tokens.h"

#include <cstdint>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/steps/normalizer.h"

namespace tapegrad::data {

void AddedTokens::add(const std::string& content, const Added& added) {
  check(!content.empty(), "the added token {} is empty", added.token);
  check(content.size() <= kMaxBytes, "the added token {} has {} bytes; {} are the most",
        added.token, content.size(), +kMaxBytes);
  if (!numbers_.add(content, static_cast<std::int32_t>(added_.size()))) return;
  added_.push_back(added);
  begins_.set(static_cast<std::uint8_t>(content.front()));
}

AddedTokens::Match AddedTokens::first(std::string_view text, const ReadSpecial& read,
                                      bool special_alone) const {
  Match match;
  TextTree::Node node = TextTree::kRoot;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = numbers_.child(node, text[i]);
    if (node == TextTree::kNoNode) break;
    const std::int32_t number = numbers_.number(node);
    if (number == TextTree::kNoNumber) continue;
    const Added& added = added_[static_cast<std::size_t>(number)];
    const bool counts = added.special ? read(text.substr(0, i + 1)) : !special_alone;
    if (counts) match = {i + 1, &added};
  }
  return match;
}

void AddedTokens::cut(std::string_view text, const ReadSpecial& read,
                      const std::function<void(Token)>& found,
                      const std::function<void(std::string_view)>& between) const {
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<std::uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = first(text.substr(at), read);
    if (match.added == nullptr) {
      ++at;
      continue;
    }
    std::string_view before = text.substr(0, at);
    text.remove_prefix(at + match.bytes);
    if (match.added->takes_left) before = without_white_space(before, false, true);
    if (match.added->takes_right) text = without_white_space(text, true, false);
    if (!before.empty()) between(before);
    found(match.added->token);
    at = 0;
  }
  if (!text.empty()) between(text);
}

}  // namespace tapegrad::data
