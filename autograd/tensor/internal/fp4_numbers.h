#pragma once

#include <bit>
#include <cstdint>

namespace tapegrad {

// The format MXFP4 (Open Compute Project, "OCP Microscaling Formats (MX) Specification", version
// 1.0, 2023, section 5): blocks of 32 elements share a scale, a power of two. Twice the numbers
// that an element of 4 bits stands for (E2M1), so that they are whole.
inline constexpr std::int8_t kFp4Numbers[] = {0, 1,  2,  3,  4,  6,  8,  12,
                                              0, -1, -2, -3, -4, -6, -8, -12};
// Half the scale of 8 bits (E8M0), 2^(x − 128), as bf16, which has all of them; 255 stands for NaN.
constexpr std::uint16_t half_scale_as_bf16(std::uint8_t x) {
  if (x == 255) return 0x7fc0;
  return static_cast<std::uint16_t>(x < 2 ? 0x20 << x : (x - 1) << 7);
}
constexpr float half_scale(std::uint8_t x) {
  return std::bit_cast<float>(std::uint32_t{half_scale_as_bf16(x)} << 16);
}
// The largest scale with which all numbers are finite as f32.
inline constexpr std::uint8_t kMostFp4Scale = 252;

}  // namespace tapegrad
