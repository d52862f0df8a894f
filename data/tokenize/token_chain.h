#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Two neighbouring tokens that become one.
using Merge = std::pair<Token, Token>;

inline uint64_t pair_key(Merge pair) {
  return static_cast<uint64_t>(pair.first) << 32 | static_cast<uint32_t>(pair.second);
}

// Words made of tokens, where two neighbours of a word merge in constant time and every other token
// keeps its position. A merged token stands at the position of its left part; the position of the
// right part is dead from then on. Two facts make lists of the places of a pair cheap to keep:
// - Tokens only ever grow, so a pair that has left a position never returns to it. A list can be
//   outdated, but holds() tells.
// - All places of a pair arise while the newer of its two tokens is being made. If that goes from
//   left to right, so does the list; places that overlap (aaa) are then merged leftmost first.
class TokenChain {
 public:
  using Position = uint32_t;
  static constexpr Position none = UINT32_MAX;

  void reserve(size_t tokens) { nodes_.reserve(tokens); }

  // Fewer than `none` tokens in all.
  void append(Token token, bool begins_word) {
    const auto position = static_cast<Position>(nodes_.size());
    if (!begins_word) {
      nodes_.back().next = position;
    }
    nodes_.push_back({token, begins_word ? none : position - 1, none});
  }

  size_t size() const { return nodes_.size(); }  // dead positions included
  Position prev(Position p) const { return nodes_[p].prev; }
  Position next(Position p) const { return nodes_[p].next; }
  Token token(Position p) const { return nodes_[p].token; }

  // The pair that begins at `p`; next(p) must not be none.
  Merge pair(Position p) const { return {nodes_[p].token, nodes_[nodes_[p].next].token}; }
  bool holds(Position p, Merge merge) const {
    return nodes_[p].token == merge.first && nodes_[p].next != none && pair(p) == merge;
  }

  void merge(Position p, Token merged) {
    Node& left = nodes_[p];
    Node& right = nodes_[left.next];
    left.token = merged;
    left.next = right.next;
    if (left.next != none) {
      nodes_[left.next].prev = p;
    }
    right.token = dead;
  }

 private:
  static constexpr Token dead = -1;

  struct Node {
    Token token;
    Position prev, next;
  };

  std::vector<Node> nodes_;
};

}  // namespace tapegrad::data
