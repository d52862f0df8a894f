#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tapegrad {

// The upper half of a float: its range, with 8 bits of significand in place of 24.
struct bf16 {
  std::uint16_t bits = 0;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

// The nearest bf16, of two as near the even one; NaN stays NaN. Without a branch, so that loops
// over it become vector code.
inline bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40U;  // rounding could turn a NaN into ∞
  return {static_cast<std::uint16_t>(std::isnan(x) ? quiet : nearest)};
}

}  // namespace tapegrad
