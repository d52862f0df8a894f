#pragma once

#include "tapegrad/autograd/tensor/shape.h"

namespace tapegrad {

// A shape seen as (outer, n, inner), with the dimension `dim` in the middle.
struct Axis {
  std::int64_t outer = 1, n = 1, inner = 1;
  Axis(const Shape& shape, int dim) : n(shape[dim]) {
    dim = shape.index(dim);
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

}  // namespace tapegrad
