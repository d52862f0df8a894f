#pragma once

#include <cstdint>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad::int8 {

// Numbers are rounded to whole ones of -kMost to kMost.
inline constexpr float kMost = 127;
// Below it, kMost over the largest magnitude may be infinite.
inline constexpr float kLeast = 0x1p-119F;

// To the nearest whole number: the sum has no bits for fractions. The same bits on all processors,
// as long as sources are compiled with -ffp-contract=off.
inline std::int8_t to_int8(float x) {
  constexpr float kNoFraction = 0x1.8p23F;
  return static_cast<std::int8_t>(static_cast<std::int32_t>((x + kNoFraction) - kNoFraction));
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
