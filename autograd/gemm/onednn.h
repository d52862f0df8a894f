#pragma once

#include <string>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad {

// oneDNN multiplies bf16, which OpenBLAS does not. It is left out of a build that does not find it.

// Whether it is there, and this processor has bf16 instructions: AVX-512 BF16 or AMX.
bool onednn_has_bf16();
// "oneDNN 2.6.3", or why it has none.
std::string onednn_description();
// C = op(A)·op(B) + beta·C on the calling thread, with alpha 1 and beta 0 or 1. Errors: those are
// others; oneDNN cannot do it. T is bf16 or float.
template <class T>
void onednn_gemm(const Gemm<T>& g);

}  // namespace tapegrad
