#include "tapegrad/nn/formats/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tapegrad::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian here");

struct Q8 {
  f16 scale;
  std::int8_t values[kQ8Block];
};
static_assert(sizeof(Q8) == 34);

bool is_finite(f16 x) { return (x.bits & 0x7c00U) != 0x7c00U; }
}  // namespace

std::string_view name_of(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return "F32";
    case GgufType::f16:
      return "F16";
    case GgufType::q8_0:
      return "Q8_0";
    case GgufType::bf16:
      return "BF16";
  }
  return "?";
}

GgufBlock block_of(GgufType type) {
  if (type == GgufType::q8_0) return {kQ8Block, sizeof(Q8)};
  return {1, type == GgufType::f32 ? 4 : 2};
}

template <class T>
void decode_q8(const std::byte* from, std::int64_t n, T* to) {
  for (std::int64_t b = 0; b < n / kQ8Block; ++b) {
    Q8 block;
    std::memcpy(&block, from + static_cast<std::size_t>(b) * sizeof block, sizeof block);
    const float scale = to_float(block.scale);
    for (std::int64_t i = 0; i < kQ8Block; ++i) {
      to[b * kQ8Block + i] = static_cast<T>(scale * static_cast<float>(block.values[i]));
    }
  }
}

template void decode_q8(const std::byte*, std::int64_t, float*);
template void decode_q8(const std::byte*, std::int64_t, double*);

// As quantize_row_q8_0_ref of ggml: the scale is that of the largest element, and elements are
// rounded by the scale in f32, halves away from zero, before the scale itself is rounded to f16.
bool encode_q8(const float* from, std::int64_t n, std::byte* to) {
  bool fits = true;
  for (std::int64_t b = 0; b < n / kQ8Block; ++b) {
    const float* const x = from + b * kQ8Block;
    float most = 0;
    for (std::int64_t i = 0; i < kQ8Block; ++i) {
      fits &= std::isfinite(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    const float scale = most / 127.0F;
    // A scale so small that its inverse is ∞ is 0 as f16.
    const float inverse = scale > 0x1p-126F ? 1.0F / scale : 0.0F;
    Q8 block{to_f16(scale), {}};
    fits &= is_finite(block.scale);
    if (!fits) return false;
    for (std::int64_t i = 0; i < kQ8Block; ++i) {
      block.values[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
    }
    std::memcpy(to + static_cast<std::size_t>(b) * sizeof block, &block, sizeof block);
  }
  return fits;
}

}  // namespace tapegrad::nn
