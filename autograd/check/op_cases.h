#pragma once

#include <vector>

#include "tapegrad/autograd/check/op_table.h"

namespace tapegrad {

// A part of the op table: matmul and linear, einsum, convolutions.
void add_product_cases(std::vector<OpCase>& cases);

}  // namespace tapegrad
