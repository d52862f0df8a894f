#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/gemm/bf16_instructions.h"
#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad {

// A product of a training step: x·Wᵀ with x (rows, depth) and W (columns, depth).
struct Product {
  int64_t rows, columns, depth;
};

// Operations per second of this product, the median of several tries, with the rounding of
// operands.
double product_rate(const Product& product, Precision precision = Precision::full);

// The precision that is faster for this product with these instructions, by a table that was
// measured: see docs/performance.md. It is the same in every run, since nothing is timed.
Precision faster_precision(const Product& product,
                           Bf16Instructions instructions = bf16_instructions());

// For people: "f32", or "bf16 in the products of linear layers, by oneDNN 2.6.3 and AMX". Says so
// if the other precision is the faster one.
std::string describe_precision(Precision precision, const Product& product,
                               Bf16Instructions instructions = bf16_instructions());

// For people: what multiplies, how fast, and how much of what the processor can do that is. A
// second line warns if it is less than half, and says what to do.
std::vector<std::string> describe_compute(const std::optional<Product>& product);

}  // namespace tapegrad
