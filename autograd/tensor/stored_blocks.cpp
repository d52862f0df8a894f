// Stored types whose elements stand in blocks: see stored_type.h. A type is a struct with the bytes
// of a block, which decodes and encodes itself, and a row. Layouts and rounding are those of ggml
// (github.com/ggml-org/ggml, src/ggml-quants.c).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/half.h"

namespace tapegrad::detail {
namespace {

// The first of n elements that is no number; if all are, the one that is farthest from 0.
std::int64_t worst_of(const float* x, std::int64_t n) {
  const auto further = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  const float* const odd = std::find_if(x, x + n, [](float v) { return !std::isfinite(v); });
  return (odd != x + n ? odd : std::max_element(x, x + n, further)) - x;
}

// A scale, and whole numbers of 8 bits.
struct Q8_0 {
  static constexpr std::int64_t kElements = 32;
  f16 scale;
  std::int8_t values[kElements];

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale);
    for (std::int64_t i = 0; i < kElements; ++i) {
      to[i] = static_cast<T>(factor * static_cast<float>(values[i]));
    }
  }

  // As quantize_row_q8_0_ref: elements are rounded by the scale in f32, halves away from zero,
  // before the scale itself is rounded to f16. False if an element is no number, or too large.
  bool encode(const float* x) {
    float most = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < kElements; ++i) {
      finite &= std::isfinite(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    const float factor = most / 127.0F;
    // A scale so small that its inverse is ∞ is 0 as f16.
    const float inverse = factor > 0x1p-126F ? 1.0F / factor : 0.0F;
    scale = to_f16(factor);
    if (!finite || !is_finite(scale)) return false;
    for (std::int64_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
    }
    return true;
  }
};
static_assert(sizeof(Q8_0) == 34);

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

// The row of a type that only ggml's files have; `file` is their general.file_type.
template <class Block>
constexpr StoredType row(std::string_view name, std::uint32_t ggml, std::int64_t file) {
  return {.name = name,
          .dtype = DType::f32,
          .block = Block::kElements,
          .block_bytes = sizeof(Block),
          .ggml = ggml,
          .gguf_file = file,
          .to_f32 = decode<Block, float>,
          .to_f64 = decode<Block, double>,
          .from_f32 = encode<Block>};
}

constexpr StoredType kTypes[] = {
    row<Q8_0>("q8_0", 8, 7),
};

}  // namespace

std::span<const StoredType> block_types() { return kTypes; }

}  // namespace tapegrad::detail
