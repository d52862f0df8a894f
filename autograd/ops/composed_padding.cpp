// Padding composed of other ops: it has no derivative of its own.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/ops/composed_ops.h"

namespace tapegrad {
namespace {

std::string_view name_of_mode(PadMode mode) {
  return mode == PadMode::reflect     ? "reflect"
         : mode == PadMode::replicate ? "replicate"
                                      : "circular";
}

// Error unless `size` elements of a dimension can be padded by `most` at one end.
void check_size(PadMode mode, std::int64_t most, std::int64_t size) {
  const std::int64_t needed = mode == PadMode::reflect     ? most + 1
                              : mode == PadMode::replicate ? 1
                                                           : most;
  check(most == 0 || size >= needed,
        "[pad] {} by {} needs at least {} elements in the dimension, not {}", name_of_mode(mode),
        most, needed, size);
}

// The element of [0, size) that stands at `place`, which may be outside.
std::int64_t source_of(PadMode mode, std::int64_t place, std::int64_t size) {
  if (place >= 0 && place < size) return place;
  if (mode == PadMode::reflect) return place < 0 ? -place : 2 * (size - 1) - place;
  if (mode == PadMode::replicate) return place < 0 ? 0 : size - 1;
  return place < 0 ? place + size : place - size;
}

Tensor padded(const Tensor& x, int dim, std::int64_t before, std::int64_t after, PadMode mode) {
  const std::int64_t size = x.dim(dim);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check(std::max({before, after, size}) <= kMost && before + size + after <= kMost,
        "[pad] dimension {} of {} is too long with ({}, {}) more: indices are i32", dim, x.shape(),
        before, after);
  check_size(mode, std::max(before, after), size);
  std::vector<std::int32_t> ids;
  for (std::int64_t place = -before; place < size + after; ++place) {
    ids.push_back(static_cast<std::int32_t>(source_of(mode, place, size)));
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  return index_select(x, dim, Tensor::from(ids, {count}));
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, PadMode mode) {
  check(padding.size() % 2 == 0 && padding.size() <= 2 * static_cast<std::size_t>(x.rank()),
        "[pad] {} numbers are not a pair for each of up to {} dimensions", padding.size(),
        x.rank());
  Tensor y = x;
  for (std::size_t i = 0; i < padding.size(); i += 2) {
    const std::int64_t before = padding[i], after = padding[i + 1];
    check(before >= 0 && after >= 0, "[pad] padding must be 0 at least, not ({}, {})", before,
          after);
    if (before > 0 || after > 0) {
      y = padded(y, x.rank() - 1 - static_cast<int>(i / 2), before, after, mode);
    }
  }
  return y;
}

}  // namespace tapegrad
