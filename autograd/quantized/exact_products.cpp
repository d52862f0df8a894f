#include "tapegrad/autograd/quantized/internal/exact_products.h"

#include <algorithm>

#include "tapegrad/base/memory/memory.h"

namespace tapegrad::quantized {
namespace {

// Rows that are dequantised at once: about a million elements, which stay in the processor's cache,
// but never so few that sums of pieces move more memory than one product would (OpenBLAS cuts
// products to a depth of 384 or less).
std::int64_t rows_of_piece(const QuantizedMatrix& w) {
  constexpr std::int64_t kElements = 1 << 20, kLeast = 384, kMultiple = 48;
  return std::min(w.out(), std::max(kLeast, kElements / w.in() / kMultiple * kMultiple));
}

// Calls use(first, count, rows) for each piece.
template <class Use>
void for_each_piece(const QuantizedMatrix& w, const Use& use) {
  const std::int64_t most = rows_of_piece(w);
  const Scratch scratch(static_cast<std::size_t>(most * w.in()) * sizeof(float));
  auto* const rows = static_cast<float*>(scratch.data());
  for (std::int64_t first = 0; first < w.out(); first += most) {
    const std::int64_t count = std::min(most, w.out() - first);
    w.dequantize(first, first + count, rows);
    use(first, count, rows);
  }
}

}  // namespace

void multiply(const Operand<float>& x, std::int64_t rows, const QuantizedMatrix& w,
              Precision precision, bool adds, float* y) {
  for_each_piece(w, [&](std::int64_t first, std::int64_t count, const float* piece) {
    const Operand<float> of_w(piece, count, w.in(), w.in(), precision);
    gemm({.tb = true,
          .m = rows,
          .n = count,
          .k = w.in(),
          .c = y + first,
          .ldc = w.out(),
          .beta = static_cast<float>(adds)},
         x, of_w);
  });
}

void multiply_back(const float* dy, std::int64_t rows, const QuantizedMatrix& w,
                   Precision precision, bool adds, float* dx) {
  for_each_piece(w, [&](std::int64_t first, std::int64_t count, const float* piece) {
    const Operand<float> of_dy(dy + first, rows, count, w.out(), precision);
    const Operand<float> of_w(piece, count, w.in(), w.in(), precision);
    gemm({.m = rows,
          .n = w.in(),
          .k = count,
          .c = dx,
          .ldc = w.in(),
          .beta = static_cast<float>(adds || first > 0)},
         of_dy, of_w);
  });
}

}  // namespace tapegrad::quantized
