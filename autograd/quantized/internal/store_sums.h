#pragma once

#include "tapegrad/autograd/quantized/internal/product.h"

namespace tapegrad::quantized {
namespace {

// Where memory is the limit, prefetches name the next addresses: by itself, the processor stops at
// each page. Blocks are named farther ahead than floats: while eight columns of x take a block,
// memory brings 8 KiB, and a line that is named later comes too late; floats, with more bytes to a
// product, lose 6 % at that distance.
constexpr std::int64_t kFloatsAhead = 2048, kBlocksAhead = 8192;
inline void prefetch(const std::uint8_t* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

// Writes the sums of a panel's rows for one column of x.
template <class V>
void put(const Product& p, std::int64_t panel, std::int64_t column, const typename V::F& sums) {
  const std::int64_t row = panel * kRows, rows = p.out - row < kRows ? p.out - row : kRows;
  float* const to = p.y + column * p.out + row;
  float lanes[kRows];
  V::store(lanes, sums);
  for (std::int64_t r = 0; r < rows; ++r)
    to[r] = p.bias == nullptr ? lanes[r] : lanes[r] + p.bias[row + r];
}

}  // namespace
}  // namespace tapegrad::quantized
