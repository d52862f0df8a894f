#include "tapegrad/data/grammar/token_trie.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

// The characters of a text that a string of JSON may have anywhere; 0 if it may not.
std::uint32_t plain_characters(std::string_view text) {
  std::uint32_t count = 0;
  for (; !text.empty(); ++count) {
    const Utf8Char c = first_char(text);
    if (c.kind != Utf8Char::Kind::valid || c.code_point < 0x20 || c.code_point == '"' ||
        c.code_point == '\\') {
      return 0;
    }
    text.remove_prefix(c.size);
  }
  return count;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : ends_(tokenizer.ends()) {
  bytes_.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (Token token = 0; token < std::ssize(bytes_); ++token) {
    if (tokenizer.is_added(token) || std::ranges::find(ends_, token) != ends_.end()) continue;
    std::string& bytes = bytes_[static_cast<std::size_t>(token)];
    bytes = tokenizer.token_bytes(token);
    if (std::ranges::any_of(bytes, is_added_byte)) bytes.clear();
    check(bytes.size() < UINT16_MAX, "[token_trie] token {} has {} bytes", token, bytes.size());
    longest_ = std::max(longest_, bytes.size());
    if (bytes.size() == 1) single_bytes_.set(static_cast<std::uint8_t>(bytes[0]));
    if (!bytes.empty()) tokens_.push_back(token);
    if (const auto count = plain_characters(bytes)) plain_.push_back({token, count});
  }
  std::ranges::stable_sort(plain_, std::greater(), &Plain::characters);
  std::ranges::stable_sort(tokens_, {}, [&](Token token) { return bytes_of(token); });

  std::vector<std::size_t> open;  // nodes on the way to the last one
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes_[open.back()].behind = static_cast<std::uint32_t>(nodes_.size());
      if (open.size() > 1) nodes_[open[open.size() - 2]].plain &= nodes_[open.back()].plain;
    }
  };
  std::string_view before;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = bytes_of(tokens_[i]);
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
    close_to(common);
    for (std::size_t depth = common; depth < text.size(); ++depth) {
      open.push_back(nodes_.size());
      nodes_.push_back({.behind = 0,
                        .first_token = static_cast<std::uint32_t>(i),
                        .depth = static_cast<std::uint16_t>(depth + 1),
                        .byte = static_cast<std::uint8_t>(text[depth]),
                        .plain = true});
    }
    nodes_[open.back()].plain &= plain_characters(text) > 0;
    before = text;
  }
  close_to(0);
  nodes_.push_back({.behind = 0,
                    .first_token = static_cast<std::uint32_t>(tokens_.size()),
                    .depth = 0,
                    .byte = 0,
                    .plain = false});
}

std::string_view TokenTrie::bytes_of(Token token) const {
  return token < 0 || token >= vocab_size() ? std::string_view()
                                            : bytes_[static_cast<std::size_t>(token)];
}

}  // namespace tapegrad::data
