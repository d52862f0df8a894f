#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/bpe/number_map.h"

namespace tapegrad::data {

// Texts, each with a number, that are found by their beginnings, byte by byte.
class TextTree {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0, kNoNode = UINT32_MAX;
  static constexpr std::int32_t kNoNumber = -1;

  // `text` is not empty, `number` not negative. False, and no change, if the text is there.
  bool add(std::string_view text, std::int32_t number) {
    Node node = kRoot;
    for (const char byte : text) {
      Node next = child(node, byte);
      if (next == kNoNode) {
        next = static_cast<Node>(numbers_.size());
        numbers_.push_back(kNoNumber);
        children_.add(edge(node, byte), next);
      }
      node = next;
    }
    if (numbers_[node] != kNoNumber) return false;
    numbers_[node] = number;
    return true;
  }
  Node child(Node node, char byte) const {
    const std::uint64_t found = children_.find(edge(node, byte));
    return found == NumberMap::kNone ? kNoNode : static_cast<Node>(found);
  }
  // kNoNumber if no text ends there.
  std::int32_t number(Node node) const { return numbers_[node]; }
  // The longest of the texts that `text` begins with; of size 0 if there is none.
  struct Found {
    std::size_t size = 0;
    std::int32_t number = kNoNumber;
  };
  Found longest(std::string_view text) const {
    Found found;
    Node node = kRoot;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, text[i]);
      if (node == kNoNode) break;
      if (numbers_[node] != kNoNumber) found = {i + 1, numbers_[node]};
    }
    return found;
  }
  std::int32_t find(std::string_view text) const {
    Node node = kRoot;
    for (const char byte : text) {
      node = child(node, byte);
      if (node == kNoNode) return kNoNumber;
    }
    return numbers_[node];
  }

 private:
  static std::uint64_t edge(Node node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<std::uint8_t>(byte);
  }

  NumberMap children_;
  std::vector<std::int32_t> numbers_ = {kNoNumber};  // of each node
};

}  // namespace tapegrad::data
