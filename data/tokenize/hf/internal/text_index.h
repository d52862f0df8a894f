#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/bpe/number_map.h"

namespace tapegrad::data {

// Finds texts that stand elsewhere, numbered from 0 on: `text_of(number)` is one. It keeps eight
// bytes or more for each, as NumberMap does: there is no node, and no other copy, of a text.
template <class TextOf>
class TextIndex {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  TextIndex(std::size_t texts, TextOf text_of)
      : text_of_(std::move(text_of)),
        bits_(bits_of_places(texts)),
        entries_(std::size_t{1} << bits_) {}

  // At most as many as were promised. False, and no change, if the text of another number is equal.
  bool add(std::size_t number) {
    const std::string_view text = text_of_(number);
    const std::uint64_t hash = hash_of(text);
    Entry& entry = entries_[place_of(text, hash)];
    if (entry.next != 0) return false;
    entry = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(number) + 1};
    return true;
  }
  // kNone if there is no such text.
  std::size_t find(std::string_view text) const {
    const Entry& entry = entries_[place_of(text, hash_of(text))];
    return entry.next == 0 ? kNone : entry.next - 1;
  }

 private:
  struct Entry {
    std::uint32_t hash = 0, next = 0;  // the number, plus 1; 0 if the place is free
  };
  static std::uint64_t hash_of(std::string_view text) {
    return std::hash<std::string_view>()(text);
  }
  std::size_t place_of(std::string_view text, std::uint64_t hash) const {
    std::size_t place = first_place(hash, bits_);
    while (entries_[place].next != 0 && !holds(entries_[place], text, hash)) {
      place = (place + 1) & (entries_.size() - 1);
    }
    return place;
  }
  bool holds(const Entry& entry, std::string_view text, std::uint64_t hash) const {
    return entry.hash == static_cast<std::uint32_t>(hash) && text_of_(entry.next - 1) == text;
  }

  TextOf text_of_;
  int bits_;
  std::vector<Entry> entries_;
};

}  // namespace tapegrad::data
