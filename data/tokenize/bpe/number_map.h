#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// Where a search among 2^bits places begins. The multiplier has no pattern (2^64 / φ), and the
// upper bits of the product depend on all of the key.
inline std::size_t first_place(std::uint64_t key, int bits) {
  return static_cast<std::size_t>((key ^ key >> 32) * 0x9E3779B97F4A7C15U >> (64 - bits));
}
// So many places for entries that fill at most three quarters of them.
inline int bits_of_places(std::size_t entries) {
  return std::max(4, static_cast<int>(std::bit_width(entries + entries / 3)));
}

// Numbers by numbers, in one piece of memory: with a node for each, hundreds of thousands of them
// would take several times the memory and the time. An entry stands in the first place that was
// free from first_place() on (linear probing).
class NumberMap {
 public:
  static constexpr std::uint64_t kNone = UINT64_MAX;  // no value

  std::size_t size() const { return size_; }
  void reserve(std::size_t entries) {
    if (bits_of_places(entries) > bits_) grow(bits_of_places(entries));
  }
  // False, and no change, if the key is there. The value is not kNone.
  bool add(std::uint64_t key, std::uint64_t value) {
    reserve(size_ + 1);
    Entry& entry = entries_[place_of(key)];
    if (entry.value != kNone) return false;
    entry = {key, value};
    ++size_;
    return true;
  }
  // kNone if the key is not there.
  std::uint64_t find(std::uint64_t key) const {
    return size_ == 0 ? kNone : entries_[place_of(key)].value;
  }

 private:
  struct Entry {
    std::uint64_t key = 0, value = kNone;
  };
  // The key's place, or the free one that it would get.
  std::size_t place_of(std::uint64_t key) const {
    std::size_t place = first_place(key, bits_);
    while (entries_[place].value != kNone && entries_[place].key != key) {
      place = (place + 1) & (entries_.size() - 1);
    }
    return place;
  }
  void grow(int bits) {
    const std::vector<Entry> before =
        std::exchange(entries_, std::vector<Entry>(std::size_t{1} << bits));
    bits_ = bits;
    for (const Entry& entry : before) {
      if (entry.value != kNone) entries_[place_of(entry.key)] = entry;
    }
  }

  std::vector<Entry> entries_;
  int bits_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tapegrad::data
