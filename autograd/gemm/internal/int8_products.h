#pragma once

#include <cstdint>
#include <limits>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad::int8 {

// How numbers whose largest magnitude this is become whole ones of -127 to 127.
struct Rounding {
  bool is_zero;   // all become zeros
  float inverse;  // what they are multiplied by, if they do not
  float scale;    // of the whole numbers

  explicit Rounding(float largest) {
    constexpr float kMost = 127;
    constexpr float kLeast = 0x1p-119F;  // below it, `inverse` might be infinite
    const bool is_finite = largest <= std::numeric_limits<float>::max();
    is_zero = !is_finite || largest < kLeast;
    inverse = is_zero ? 0 : kMost / largest;
    scale = !is_finite ? std::numeric_limits<float>::quiet_NaN() : is_zero ? 0 : largest / kMost;
  }
};

// To the nearest whole number: the sum has no bits for fractions. The same bits on all processors,
// as long as sources are compiled with -ffp-contract=off.
inline std::int8_t to_int8(float x) {
  constexpr float kNoFraction = 0x1.8p23F;
  return static_cast<std::int8_t>(static_cast<std::int32_t>((x + kNoFraction) - kNoFraction));
}

// For stochastic rounding: what is added to a number before it goes to the nearest whole one, so
// that it becomes either neighbour with the chance that makes their mean the number. A hash of i
// and of a seed, the same on all processors. As far from -1/2 and 1/2 as 2^-15, so that the product
// of a largest magnitude with `inverse`, 127 but for its last bit, does not become 128.
inline float dither(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t h = (i + seed) * 0x9E3779B1U;
  h = (h ^ (h >> 15)) * 0x85EBCA77U;
  constexpr float kSteps = 0x1p14F;
  return (static_cast<float>(static_cast<std::int32_t>(h >> 18)) + 0.5F - kSteps / 2) / kSteps;
}
// A seed made of the largest magnitude among the numbers, which no cut into ranks or threads and no
// resume changes.
inline std::uint32_t dither_seed(std::uint32_t bits) {
  bits *= 0x9E3779B1U;
  return bits ^ (bits >> 16);
}

// A product of rounded matrices, and where its sums go once they are scaled. A sum over k is cut
// into parts of `depth` terms, which have scales of their own.
struct ScaledProduct {
  Gemm<std::int8_t> sums;  // c and ldc do not count
  std::int64_t depth;      // at least 1
  // (parts, m) and (parts, n). The latter may be null: 1.
  const float *of_rows, *of_columns;
  float* y;
  std::int64_t ldy;
  bool adds;  // to what y has
};
void run(const ScaledProduct& p);

}  // namespace tapegrad::int8
