#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tapegrad {

// The upper half of a float: the same range, with 8 bits of significand instead of 24.
struct bf16 {
  std::uint16_t bits = 0;
};

// IEEE 754's binary16: 11 bits of significand, up to 65504. Model files may hold it.
struct f16 {
  std::uint16_t bits = 0;
};

// Exact.
inline float to_float(bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline float to_float(f16 x) {
  // The bits of f16 at their places in a float give a number that is too small by 2^112, since the
  // exponents count from different zeros. Multiplying mends that, for denormals as well.
  const std::uint32_t magnitude = (x.bits & 0x7fffU) << 13;
  const bool is_finite = (x.bits & 0x7c00U) != 0x7c00U;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t sign = (x.bits & 0x8000U) << 16;
  return std::bit_cast<float>(sign | (is_finite ? scaled : magnitude | 0x7f800000U));
}

// The nearest bf16; of two that are equally near, the even one. NaN stays NaN. Has no branch, so
// that compilers vectorise loops over it.
inline bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40U;  // rounding could turn a NaN into ∞
  return {static_cast<std::uint16_t>(std::isnan(x) ? quiet : nearest)};
}

}  // namespace tapegrad
