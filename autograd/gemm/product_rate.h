#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad {

// A product of a training step: x·Wᵀ with x (rows, depth) and W (columns, depth).
struct Product {
  int64_t rows, columns, depth;
};

// Operations per second of this product, the median of several tries.
double product_rate(const Product& product, Precision precision = Precision::full);

// How long this product takes in bf16, for some of its rows, where f32 takes 1. Rounding is part of
// it. It takes less than a tenth of a second to find out.
double bf16_time(const Product& product);
// The faster precision on this machine. Products that are about as fast stay f32.
Precision faster_precision(const Product& product);

// For people, what this product costs in bf16: "256×512×128 takes 0.62 of the time that it takes in
// f32". Empty for f32 where bf16 is no faster.
std::string describe_precision(Precision precision, const Product& product);

// For people: what multiplies, how fast, and how much of what the processor can do that is. A
// second line warns if it is less than half, and says what to do.
std::vector<std::string> describe_compute(const std::optional<Product>& product);

}  // namespace tapegrad
