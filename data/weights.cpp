#include "tapegrad/data/weights.h"

#include <cmath>

namespace tapegrad::data {
namespace {

// Copies of all items, and how many more are drawn.
struct Copies {
  std::int64_t whole, drawn;
};

Copies copies_of(std::int64_t count, double weight) {
  const double whole = std::floor(weight);
  return {static_cast<std::int64_t>(whole),
          static_cast<std::int64_t>(std::llround((weight - whole) * static_cast<double>(count)))};
}

}  // namespace

std::int64_t weighted_count(std::int64_t count, double weight) {
  const Copies copies = copies_of(count, weight);
  return copies.whole * count + copies.drawn;
}

void add_weighted(std::int64_t first, std::int64_t count, double weight, Rng& rng,
                  std::vector<std::int64_t>& items) {
  const Copies copies = copies_of(count, weight);
  for (std::int64_t copy = 0; copy < copies.whole; ++copy) {
    for (std::int64_t i = 0; i < count; ++i) items.push_back(first + i);
  }
  if (copies.drawn == 0) return;
  std::vector<std::int64_t> drawn = rng.randperm(count);
  drawn.resize(static_cast<std::size_t>(copies.drawn));
  for (const std::int64_t i : drawn) items.push_back(first + i);
}

}  // namespace tapegrad::data
