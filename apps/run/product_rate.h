#pragma once

#include <cstdint>
#include <string>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad::run {

// A product of a training step: x·Wᵀ with x (rows, depth) and W (columns, depth).
struct Product {
  int64_t rows, columns, depth;
};

// Operations per second of this product, the median of several tries.
double product_rate(const Product& product, Precision precision = Precision::full);

// "bf16 in the products of linear layers, by oneDNN 2.6.3". If the processor is not faster with
// bf16: why, and how much slower it is, measured on some rows of this product.
std::string describe_bf16(const Product& product);

}  // namespace tapegrad::run
