#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/internal/ids.h"

namespace tapegrad {
namespace {

// The ids that count, in order: each with its bag and its place among all ids.
struct Bags {
  std::vector<std::int32_t> ids, bags, places;
  std::vector<double> sizes;  // of the bags
};

// Where each bag begins, and the end of the last one.
std::vector<std::int64_t> bag_bounds(const Tensor& ids, const Tensor& offsets, bool last_given) {
  check(ids.rank() == (offsets.defined() ? 1 : 2),
        "[embedding_bag] ids must be (B, L), or (N) with offsets, not {}", ids.shape());
  std::vector<std::int64_t> bounds;
  if (!offsets.defined()) {
    for (std::int64_t b = 0; b <= ids.dim(0); ++b) bounds.push_back(b * ids.dim(1));
    return bounds;
  }
  check(offsets.rank() == 1, "[embedding_bag] offsets must be (B), not {}", offsets.shape());
  for (const std::int32_t at :
       ids_as_i32("embedding_bag", "offsets", offsets).values<std::int32_t>()) {
    const std::int64_t before = bounds.empty() ? 0 : bounds.back();
    check(bounds.empty() ? at == 0 : at >= before && at <= ids.numel(),
          "[embedding_bag] bag {} cannot begin at {}: offsets rise from 0 up to the {} ids",
          bounds.size(), at, ids.numel());
    bounds.push_back(at);
  }
  check(!bounds.empty() || !last_given,
        "[embedding_bag] include_last_offset needs an offset at least: the number of ids");
  check(!bounds.empty() || ids.numel() == 0,
        "[embedding_bag] without offsets, {} ids are in no bag", ids.numel());
  if (!last_given) {
    bounds.push_back(ids.numel());
  } else {
    check(bounds.back() == ids.numel(),
          "[embedding_bag] with include_last_offset, offsets end with the number of ids, {}, not "
          "{}",
          ids.numel(), bounds.back());
  }
  return bounds;
}

Bags bags_of(const Tensor& ids, std::int64_t rows, const EmbeddingBagOptions& options) {
  const std::int64_t padding =
      padding_row("embedding_bag", options.padding_idx, rows).value_or(rows);
  const std::vector<std::int64_t> bounds =
      bag_bounds(ids, options.offsets, options.include_last_offset);
  const Tensor given = ids_as_i32("embedding_bag", "ids", ids);
  const auto values = given.values<std::int32_t>();
  Bags bags;
  for (std::size_t b = 0; b + 1 < bounds.size(); ++b) {
    const std::size_t before = bags.ids.size();
    for (std::int64_t i = bounds[b]; i < bounds[b + 1]; ++i) {
      const std::int32_t id = values[static_cast<std::size_t>(i)];
      check(id >= 0 && id < rows, "[embedding_bag] id {} at position {} is outside the {} rows", id,
            i, rows);
      if (id == padding) continue;
      bags.ids.push_back(id);
      bags.bags.push_back(static_cast<std::int32_t>(b));
      bags.places.push_back(static_cast<std::int32_t>(i));
    }
    bags.sizes.push_back(static_cast<double>(bags.ids.size() - before));
  }
  return bags;
}

Tensor list_of(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// The largest element of each bag's rows, side by side in a table as wide as the largest bag.
Tensor largest(const Tensor& weight, const Bags& bags) {
  const auto count = static_cast<std::int64_t>(bags.sizes.size());
  const auto width =
      static_cast<std::int64_t>(*std::max_element(bags.sizes.begin(), bags.sizes.end()));
  std::vector<std::int32_t> table(static_cast<std::size_t>(count * width));
  std::vector<std::uint8_t> absent(table.size(), 1);
  std::size_t i = 0;
  for (std::size_t b = 0; b < bags.sizes.size(); ++b) {
    std::size_t at = b * static_cast<std::size_t>(width);
    for (; i < bags.ids.size() && bags.bags[i] == static_cast<std::int32_t>(b); ++i, ++at) {
      table[at] = bags.ids[i];
      absent[at] = 0;
    }
  }
  const Tensor rows = gather_rows(weight, Tensor::from(table, {count, width}));
  const Tensor known = masked_fill(rows, Tensor::from(absent, {count, width, 1}),
                                   -std::numeric_limits<double>::infinity());
  return masked_fill(max(known, 1).values, eq(Tensor::from(bags.sizes, {count, 1}), 0), 0);
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& ids, const EmbeddingBagOptions& options) {
  check(weight.rank() == 2, "[embedding_bag] weight must be (V, C), not {}", weight.shape());
  const Tensor& factors = options.per_sample_weights;
  check(!factors.defined() || options.mode == BagMode::sum,
        "[embedding_bag] per_sample_weights are for BagMode::sum");
  check(!factors.defined() || factors.shape() == ids.shape(),
        "[embedding_bag] the shapes of ids {} and per_sample_weights {} differ", ids.shape(),
        factors.defined() ? factors.shape() : Shape());
  const Bags bags = bags_of(ids, weight.dim(0), options);
  if (options.mode == BagMode::max && !bags.ids.empty()) return largest(weight, bags);
  Tensor rows = gather_rows(weight, list_of(bags.ids));
  if (factors.defined()) {
    rows = rows * unsqueeze(gather_rows(flatten(factors), list_of(bags.places)), 1);
  }
  const auto count = static_cast<std::int64_t>(bags.sizes.size());
  const Tensor sums =
      index_add(Tensor::zeros({count, weight.dim(1)}, weight.dtype()), 0, list_of(bags.bags), rows);
  if (options.mode != BagMode::mean) return sums;
  const Tensor sizes = clamp(Tensor::from(bags.sizes, {count, 1}).to(weight.dtype()), 1,
                             std::numeric_limits<double>::infinity());
  return sums / sizes;
}

}  // namespace tapegrad
