#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/half.h"

namespace tapegrad::detail {

// Helpers for the types of stored_blocks.cpp and its neighbours. A type is a struct with
// the bytes of a block, which decodes and perhaps encodes itself, and a row. Layouts and rounding
// are those of ggml (github.com/ggml-org/ggml, src/ggml-quants.c).

// The first of n elements that is no number; if all are, the one that is farthest from 0.
inline std::int64_t worst_of(const float* x, std::int64_t n) {
  const auto further = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  const float* const odd = std::find_if(x, x + n, [](float v) { return !std::isfinite(v); });
  return (odd != x + n ? odd : std::max_element(x, x + n, further)) - x;
}

template <class Block, class T>
void decode(const std::byte* from, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; i += Block::kElements, from += sizeof(Block)) {
    Block block;
    std::memcpy(&block, from, sizeof block);
    block.decode(to + i);
  }
}

template <class Block>
std::int64_t encode(const float* from, std::int64_t n, std::byte* to) {
  for (std::int64_t i = 0; i < n; i += Block::kElements, to += sizeof(Block)) {
    Block block{};
    if (!block.encode(from + i)) return i + worst_of(from + i, Block::kElements);
    std::memcpy(to, &block, sizeof block);
  }
  return n;
}

// The row of a type that only ggml's files have; `file` is their general.file_type. Without it and
// encode(), the type is read, but not written.
template <class Block>
constexpr StoredType block_row(std::string_view name, std::uint32_t ggml,
                               std::optional<std::int64_t> file = {}) {
  StoredType row{.name = name,
                 .dtype = DType::f32,
                 .block = Block::kElements,
                 .block_bytes = sizeof(Block),
                 .ggml = ggml,
                 .gguf_file = file,
                 .to_f32 = decode<Block, float>,
                 .to_f64 = decode<Block, double>};
  if constexpr (requires(Block block, const float* x) { block.encode(x); }) {
    row.from_f32 = encode<Block>;
  }
  return row;
}

// 32 numbers of 4 bits: element i shares a byte with element i + 16, whose are the upper bits.
struct FourBits {
  static constexpr int kMost = 15;
  std::uint8_t pairs[16];

  // Number i of a half; loops over 16 of them become vector code.
  int at(int half, std::int64_t i) const { return pairs[i] >> (4 * half) & 15; }
  // Once for each i, over zeros.
  void put(std::int64_t i, int number) {
    pairs[i % 16] = static_cast<std::uint8_t>(pairs[i % 16] | ((number & 15) << (i / 16 * 4)));
  }
};

// The nearest whole number; of two, the even one: the last bits of x + 1.5·2^23. Of an |x| from
// 2^22 on, or none that is a number, some number of 23 bits, which is ggml's.
inline int nearest_int(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x + 0x1.8p23F);
  return (bits & 0x007fffff) - 0x00400000;
}

}  // namespace tapegrad::detail
