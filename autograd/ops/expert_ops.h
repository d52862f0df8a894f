#pragma once

#include "tapegrad/autograd/weight.h"

namespace tapegrad {

// Products of rows that each choose one of several matrices: the linear layers of experts (Shazeer
// et al., "Outrageously Large Neural Networks", 2017, section 2). Rows that chose the same expert
// stand side by side.
//
//   x (N, in), weight (E, out, in), ends (E) → (N, out)
//
// Rows [ends[e − 1], ends[e]) of x are multiplied by weight[e]ᵀ; the first expert's begin at 0, and
// the last one's end at N. It is F.grouped_mm(x, weight.transpose(1, 2), offs=ends) of PyTorch. The
// rows of an expert are one product, and an expert without rows costs nothing but its zeros in the
// gradient of the weight. While a BatchInvariant (ops.h) lives, each row gets the bits that it has
// alone. Errors: shapes that do not fit; ends, in i32 or i64, that do not rise from 0 or more to N;
// a quantised weight; products in int8.
Tensor grouped_linear(const Tensor& x, const Weight& weight, const Tensor& ends);

}  // namespace tapegrad
