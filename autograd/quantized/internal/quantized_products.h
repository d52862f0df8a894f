#pragma once

#include <span>
#include <vector>

#include "tapegrad/autograd/weight.h"

namespace tapegrad {

// The weight and the bias of a linear layer: the bias (out) may be undefined.
struct WeightAndBias {
  Weight weight;
  Tensor bias = {};
};

namespace quantized {

// linear() of x, of f32, by each of these quantised weights, whose panels threads share out
// together: all are exact in one precision, or none is. For checks, x may be of f64: then products
// are those of linear() with the dequantised matrices.
std::vector<Tensor> products(const Tensor& x, std::span<const WeightAndBias> by);

}  // namespace quantized
}  // namespace tapegrad
