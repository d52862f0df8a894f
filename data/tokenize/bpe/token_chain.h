#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Two neighbouring tokens that become one token.
using Merge = std::pair<Token, Token>;

inline std::uint64_t pair_key(Merge pair) {
  return static_cast<std::uint64_t>(pair.first) << 32 | static_cast<std::uint32_t>(pair.second);
}

// Words made of tokens. Two neighbours in a word merge in constant time, and all other tokens keep
// their positions. A merged token has the position of its left part; the position of the right part
// is dead from then on. Two facts make it cheap to keep a list of the positions of each pair:
// - Tokens only grow, so a pair that has left a position never returns to it. An entry of a list
//   may be outdated, but holds() tells whether it is.
// - All positions of a pair arise while the newer of its two tokens is being made. If that goes
//   from left to right, and no other pair makes the same token, the list is in order, and
//   overlapping positions (in aaa) merge leftmost first.
class TokenChain {
 public:
  using Position = std::uint32_t;
  static constexpr Position kNone = UINT32_MAX;

  void reserve(std::size_t tokens) { nodes_.reserve(tokens); }

  // Adds a token at the end. The chain may have fewer than `kNone` tokens in all.
  void append(Token token, bool begins_word) {
    const auto position = static_cast<Position>(nodes_.size());
    if (!begins_word) {
      nodes_.back().next = position;
    }
    nodes_.push_back({token, begins_word ? kNone : position - 1, kNone});
  }

  std::size_t size() const { return nodes_.size(); }  // dead positions included
  Position prev(Position p) const { return nodes_[p].prev; }
  Position next(Position p) const { return nodes_[p].next; }
  Token token(Position p) const { return nodes_[p].token; }
  bool is_dead(Position p) const { return nodes_[p].token == kDead; }

  // The pair that begins at `p`; next(p) must not be kNone.
  Merge pair(Position p) const { return {nodes_[p].token, nodes_[nodes_[p].next].token}; }
  bool holds(Position p, Merge merge) const {
    return nodes_[p].token == merge.first && nodes_[p].next != kNone && pair(p) == merge;
  }

  void merge(Position p, Token merged) {
    Node& left = nodes_[p];
    Node& right = nodes_[left.next];
    left.token = merged;
    left.next = right.next;
    if (left.next != kNone) {
      nodes_[left.next].prev = p;
    }
    right.token = kDead;
  }

 private:
  static constexpr Token kDead = -1;

  struct Node {
    Token token;
    Position prev, next;
  };

  std::vector<Node> nodes_;
};

}  // namespace tapegrad::data
