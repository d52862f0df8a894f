#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tapegrad/base/cxx20.h"

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
inline bool is_finite(bf16 x) { return (x.bits & 0x7f80U) != 0x7f80U; }
inline bool is_finite(f16 x) { return (x.bits & 0x7c00U) != 0x7c00U; }
inline float to_float(f16 x) {
  // The bits of f16 at their places in a float give a number that is too small by 2^112, since the
  // exponents count from different zeros. Multiplying mends that, for denormals as well; ∞ and NaN
  // become 2^16 and more, which no other f16 is. Has no branch, so that compilers vectorise loops
  // over it.
  const float magnitude = std::bit_cast<float>((x.bits & 0x7fffU) << 13) * 0x1p112F;
  const std::uint32_t endless = magnitude >= 0x1p16F ? 0x7f800000U : 0U;
  const std::uint32_t sign = (x.bits & 0x8000U) << 16;
  return std::bit_cast<float>(sign | endless | std::bit_cast<std::uint32_t>(magnitude));
}

// The nearest bf16; of two that are equally near, the even one. NaN stays NaN. Has no branch, so
// that compilers vectorise loops over it.
inline bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40U;  // rounding could turn a NaN into ∞
  return {static_cast<std::uint16_t>(std::isnan(x) ? quiet : nearest)};
}

// The nearest f16; of two that are equally near, the even one. From 65520 on that is ∞. NaN stays
// NaN.
inline f16 to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  const auto with_sign = [sign](std::uint32_t half) {
    return f16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000U) return with_sign(0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return with_sign(0x7c00U);  // 65520 and more
  if (magnitude < 0x38800000U) {
    // Below 2^-14 an f16 is a multiple of 2^-24, as the floats from 0.5 to 1 are: adding rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U);
  }
  const std::uint32_t nearest = (magnitude + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  return with_sign(nearest - (112U << 10));  // the exponents count from different zeros
}

}  // namespace tapegrad
