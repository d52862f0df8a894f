#include "tapegrad/arrays/row_selection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/error.h"

namespace tapegrad::arrays {
namespace {

std::int64_t row_count(const Rows& arrays) {
  check(!arrays.empty(), "[rows] there are no arrays");
  for (const Tensor& array : arrays) {
    check(array.rank() >= 1 && array.dim(0) == arrays[0].dim(0),
          "[rows] arrays need as many rows each: one is {}, another {}", arrays[0].shape(),
          array.shape());
  }
  return arrays[0].dim(0);
}

// By a binary search in the sums of the weights so far.
std::vector<std::int64_t> drawn_with_replacement(std::span<const double> weights,
                                                 std::int64_t count, Rng& rng) {
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  const double total = sums.back();
  check(std::isfinite(total), "[weighted_sample] the sum of the weights is not finite");
  for (double& sum : sums) sum /= total;
  sums.back() = 1;
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    drawn.push_back(std::lower_bound(sums.begin(), sums.end(), rng.uniform_double()) -
                    sums.begin());
  }
  return drawn;
}

// The largest quotients of weights and exponential variates (Efraimidis & Spirakis, "Weighted
// Random Sampling with a Reservoir", 2006).
std::vector<std::int64_t> drawn_without(std::span<const double> weights, std::int64_t count,
                                        Rng& rng) {
  std::vector<double> scores;
  for (const double weight : weights) {
    // PyTorch's variates are above 0, too: a score is no 0/0.
    const double variate = -std::log1p(-rng.uniform_double());
    scores.push_back(weight / std::max(variate, std::numeric_limits<double>::min()));
  }
  std::vector<std::int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto score = [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

}  // namespace

Rows rows_at(const Rows& arrays, std::span<const std::int64_t> rows) {
  const std::int64_t all = row_count(arrays);
  for (const Tensor& array : arrays) check_untracked("rows", "arrays", array);
  for (const std::int64_t row : rows) {
    check(row >= 0 && row < all, "[rows] there is no row {}: there are {}", row, all);
  }
  Rows result;
  for (const Tensor& array : arrays) {
    Tensor taken = Tensor::empty(array.shape().with(0, std::ssize(rows)), array.dtype());
    const std::int64_t size = all == 0 ? 0 : array.numel() / all;
    dispatch_all(array.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* to = taken.mutable_data<T>();
      for (const std::int64_t row : rows) to = std::copy_n(array.data<T>() + row * size, size, to);
    });
    result.push_back(std::move(taken));
  }
  return result;
}

std::vector<std::int64_t> split_lengths(std::int64_t rows, const std::vector<double>& shares) {
  check(rows >= 0, "[split_lengths] there are {} rows", rows);
  double sum = 0;
  for (const double share : shares) {
    check(share >= 0 && share <= 1, "[split_lengths] a share of {} is not from 0 to 1", share);
    sum += share;
  }
  check(std::abs(sum - 1) <= 1e-9, "[split_lengths] the shares' sum is {}, but must be 1", sum);
  std::vector<std::int64_t> lengths;
  std::int64_t left = rows;
  for (const double share : shares) {
    const double length = std::floor(static_cast<double>(rows) * share);
    lengths.push_back(std::min(left, static_cast<std::int64_t>(length)));
    left -= lengths.back();
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return lengths;
}

std::vector<Rows> random_split(const Rows& arrays, const std::vector<std::int64_t>& lengths,
                               Rng& rng) {
  const std::int64_t rows = row_count(arrays);
  std::int64_t left = rows;
  for (const std::int64_t length : lengths) {
    check(length >= 0 && length <= left,
          "[random_split] the lengths are not those of all {} rows together: {} does not fit", rows,
          length);
    left -= length;
  }
  check(left == 0, "[random_split] the lengths leave {} of {} rows over", left, rows);
  const std::vector<std::int64_t> order = rng.randperm(rows);
  std::vector<Rows> parts;
  std::span<const std::int64_t> rest = order;
  for (const std::int64_t length : lengths) {
    parts.push_back(rows_at(arrays, rest.first(static_cast<std::size_t>(length))));
    rest = rest.subspan(static_cast<std::size_t>(length));
  }
  return parts;
}

std::vector<std::int64_t> weighted_sample(std::span<const double> weights, std::int64_t count,
                                          Rng& rng, bool replacement) {
  check(count >= 1, "[weighted_sample] {} rows cannot be drawn", count);
  std::int64_t possible = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check(weights[i] >= 0 && std::isfinite(weights[i]),
          "[weighted_sample] weight {} at index {} is not a finite number >= 0", weights[i], i);
    possible += weights[i] > 0;
  }
  check(possible > 0, "[weighted_sample] all {} weights are 0", weights.size());
  // PyTorch draws a single row as it draws several without replacement.
  if (replacement && count > 1) return drawn_with_replacement(weights, count, rng);
  check(count <= possible, "[weighted_sample] {} rows cannot be drawn of {} with a weight above 0",
        count, possible);
  return drawn_without(weights, count, rng);
}

}  // namespace tapegrad::arrays
