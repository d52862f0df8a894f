#pragma once

#include <string_view>

#include "tapegrad/autograd/tensor/shape.h"

namespace tapegrad {

// dim as a plain index, as Shape::index() has it, with an error that names the op.
inline int axis_index(std::string_view op, const Shape& shape, int dim) {
  check(dim >= -shape.rank() && dim < shape.rank(), "[{}] there is no dimension {} in {}", op, dim,
        shape);
  return shape.index(dim);
}

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
