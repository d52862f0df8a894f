#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/arrays/array_loader.h"

namespace tapegrad::arrays {

// Rows of arrays by their numbers, and draws of such numbers. Each draw is PyTorch's for an Rng of
// Kind::torch of the generator's seed.

// The rows of these numbers of each array, in their order, as copies. Errors: arrays of different
// numbers of rows; a number outside of them; a live tape tracks an array.
Rows rows_at(const Rows& arrays, std::span<const std::int64_t> rows);

// How many rows each part gets that has this share of them: rounded down, and one more for the
// first parts until all rows are given away. The shares are not negative, and their sum is 1.
std::vector<std::int64_t> split_lengths(std::int64_t rows, const std::vector<double>& shares);

// Arrays of so many rows each, drawn without repetition, as torch.utils.data.random_split draws
// them:
//
//   const auto parts = random_split({x, y}, split_lengths(x.dim(0), {0.8, 0.2}), rng);
//
// Error unless the lengths are those of all rows together.
std::vector<Rows> random_split(const Rows& arrays, const std::vector<std::int64_t>& lengths,
                               Rng& rng);

// `count` numbers of rows, each drawn in proportion to its weight, as torch.utils.data's
// WeightedRandomSampler and torch.multinomial of float64 draw them. Without replacement, no row
// comes twice; Error if fewer rows than `count` have a weight above 0. Error for weights that
// Rng::multinomial does not take.
std::vector<std::int64_t> weighted_sample(std::span<const double> weights, std::int64_t count,
                                          Rng& rng, bool replacement = true);

}  // namespace tapegrad::arrays
