#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// An added token that a grammar has at some places, where its terms have a byte for it: one of the
// eight from kFirstAdded on.
struct AddedToken {
  Token token;
  std::uint8_t byte;
};
inline constexpr std::uint8_t kFirstAdded = 0xF8;
constexpr bool is_added_byte(char c) { return static_cast<std::uint8_t>(c) >= kFirstAdded; }

// The tokens of a vocabulary that are made of text, as a tree of their bytes: tokens that begin
// alike are looked at once. Special and other added tokens are left out: no text may have them
// inside. So are tokens with bytes that no UTF-8 has, from kFirstAdded on.
class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);

  // Nodes in the order of a walk that looks at what is below a node before its neighbours.
  struct Node {
    std::uint32_t behind;       // the first node that is not below this one
    std::uint32_t first_token;  // in tokens(); those of the next node follow
    std::uint16_t depth;        // bytes, 1 or more
    std::uint8_t byte;
    bool plain;  // all tokens here and below are plain: see plain()
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const Token> tokens_at(std::size_t node) const {
    return {tokens_.data() + nodes_[node].first_token,
            nodes_[node + 1].first_token - nodes_[node].first_token};
  }

  // Tokens that any string of JSON may have at any place: whole characters that need no escape.
  // Ordered by how many characters they have, most first.
  struct Plain {
    Token token;
    std::uint32_t characters;
  };
  std::span<const Plain> plain() const { return plain_; }

  std::string_view bytes_of(Token token) const;
  std::int64_t vocab_size() const { return std::ssize(bytes_); }
  std::span<const Token> ends() const { return ends_; }  // tokens that end a text
  std::size_t longest() const { return longest_; }       // bytes of a token
  // Bytes that are a token by themselves. A text of these alone can always go on.
  const std::bitset<256>& single_bytes() const { return single_bytes_; }

 private:
  std::vector<std::string> bytes_;  // of each token; empty: left out
  std::vector<Node> nodes_;         // and one behind the last
  std::vector<Token> tokens_, ends_;
  std::vector<Plain> plain_;
  std::size_t longest_ = 0;
  std::bitset<256> single_bytes_;
};

}  // namespace tapegrad::data
