#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/base/random.h"

namespace tapegrad::data {

// How often an epoch has each of some items: with the weight 2 twice; with 0.5 half of them, drawn
// anew for each epoch; with 1.5 all of them, and half of them once more.

// How many of `count` items such an epoch has.
std::int64_t weighted_count(std::int64_t count, double weight);
// Appends the items [first, first + count) of an epoch to `items`. Draws those of the fraction
// alone.
void add_weighted(std::int64_t first, std::int64_t count, double weight, Rng& rng,
                  std::vector<std::int64_t>& items);

}  // namespace tapegrad::data
