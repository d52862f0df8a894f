#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "tapegrad/autograd/tensor/shape.h"

namespace tapegrad {

// dim as a plain index, as Shape::index() has it, with an error that names the op.
inline int axis_index(std::string_view op, const Shape& shape, int dim) {
  check(dim >= -shape.rank() && dim < shape.rank(), "[{}] there is no dimension {} in {}", op, dim,
        shape);
  return shape.index(dim);
}

// Error unless i32 holds all indices along the dimension: those that ops return are i32.
inline void check_indices_fit(std::string_view op, const Shape& shape, int dim) {
  check(shape[dim] <= std::numeric_limits<std::int32_t>::max(),
        "[{}] dimension {} of {} is too long: indices are i32", op, dim, shape);
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
