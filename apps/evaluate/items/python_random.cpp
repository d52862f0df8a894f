#include "tapegrad/apps/evaluate/items/python_random.h"

#include <array>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "tapegrad/base/error.h"

namespace tapegrad::evaluation {
namespace {

constexpr std::size_t kWords = std::mt19937::state_size;

// init_by_array of a key of one word. An engine takes its state from what `generate` writes.
struct OneWordKey {
  using result_type = std::uint32_t;
  std::uint32_t key;

  template <class Iterator>
  void generate(Iterator begin, Iterator) const {
    std::array<std::uint32_t, kWords> mt{19650218};
    const auto mixed = [&](std::size_t i, std::uint32_t factor) {
      return (mt[i - 1] ^ mt[i - 1] >> 30) * factor;
    };
    for (std::uint32_t i = 1; i < kWords; ++i) mt[i] = mixed(i, 1812433253) + i;
    std::size_t i = 1;
    const auto advance = [&] {
      if (++i < kWords) return;
      mt[0] = mt[kWords - 1];
      i = 1;
    };
    for (std::size_t n = 0; n < kWords; ++n, advance()) {
      mt[i] = (mt[i] ^ mixed(i, 1664525)) + key;
    }
    for (std::size_t n = 1; n < kWords; ++n, advance()) {
      mt[i] = (mt[i] ^ mixed(i, 1566083941)) - static_cast<std::uint32_t>(i);
    }
    mt[0] = 0x80000000U;
    for (const std::uint32_t word : mt) *begin++ = word;
  }
};

std::mt19937 begun(std::uint32_t seed) {
  OneWordKey key{seed};
  return std::mt19937(key);
}

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) : words_(begun(seed)) {}

std::size_t PythonRandom::below(std::size_t bound) {
  const int bits = std::bit_width(bound);
  std::size_t drawn = bound;
  while (drawn >= bound) drawn = static_cast<std::uint32_t>(words_()) >> (32 - bits);
  return drawn;
}

// Of few, the places that are left are kept; of many, those that were drawn.
std::vector<std::size_t> PythonRandom::sample(std::size_t population, std::size_t count) {
  check(count <= population && population <= UINT32_MAX, "[sample] {} of {}", count, population);
  std::size_t few = 21;
  if (count > 5) {
    std::size_t power = 1;
    while (power < 3 * count) power *= 4;
    few += power;
  }
  std::vector<std::size_t> drawn;
  if (population <= few) {
    std::vector<std::size_t> left(population);
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (; drawn.size() < count; left.pop_back()) {
      std::size_t& place = left[below(left.size())];
      drawn.push_back(place);
      place = left.back();
    }
    return drawn;
  }
  std::unordered_set<std::size_t> seen;
  while (drawn.size() < count) {
    const std::size_t place = below(population);
    if (seen.insert(place).second) drawn.push_back(place);
  }
  return drawn;
}

}  // namespace tapegrad::evaluation
