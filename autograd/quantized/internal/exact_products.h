#pragma once

#include <cstdint>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"

namespace tapegrad::quantized {

// Products of gemm() with a quantised matrix W (out, in), of which some hundred rows are
// dequantised at a time: for many rows, where unpacking takes little beside the product. Nothing
// depends on the number of threads.

// y (rows, out) = x (rows, in)·Wᵀ, or with `adds` y + x·Wᵀ.
void multiply(const Operand<float>& x, std::int64_t rows, const QuantizedMatrix& w,
              Precision precision, bool adds, float* y);
// dx (rows, in) = dy (rows, out)·W, or with `adds` dx + dy·W.
void multiply_back(const float* dy, std::int64_t rows, const QuantizedMatrix& w,
                   Precision precision, bool adds, float* dx);

}  // namespace tapegrad::quantized
