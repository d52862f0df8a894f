#pragma once

#include <cstdint>

namespace tapegrad::quantized {

// Rows of a matrix (out, in) lie in panels of sixteen, whose elements of one column, or of four
// columns, stand side by side: a vector register takes one of each row. The last panel is filled up
// with rows of zeros.
inline constexpr std::int64_t kRows = 16;

// Some elements of an activation, rounded to 8 bits: x ≈ scale·q. They are the same for all rows of
// the matrix. An element that is not finite makes the scale NaN.
inline constexpr std::int64_t kRounded = 32;
struct RoundedBlock {
  std::int8_t q[kRounded];
  float scale;
  float sum;             // scale·Σ q
  std::int32_t sums[2];  // of q: of the first and of the second half
};

// y (columns, out) = x (columns, in)·Wᵀ + bias for some panels of W.
struct Product {
  const std::uint8_t* panels;
  std::int64_t panel_bytes, in, out;
  std::int64_t first, last;  // panels
  std::int64_t columns;
  const float* x;               // (columns, in), for a layout that keeps x as it is; or
  const RoundedBlock* rounded;  // (columns, in / kRounded)
  const float* bias;            // (out) or null
  float* y;
};
// Each element of y is computed by the same operations in the same order, whatever the other
// columns are, and however panels are shared out.
using Multiply = void (*)(const Product&);

// The kernels of an instruction set: one for each of layouts() in weight_layouts.h, in their order.
extern const Multiply* const kPlainKernels;
extern const Multiply* const kAvx2Kernels;
extern const Multiply* const kAvx512Kernels;
extern const Multiply* const kNeonKernels;

}  // namespace tapegrad::quantized
