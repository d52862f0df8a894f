#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/tensor/shape.h"

namespace tapegrad {

// Which dimensions `dims` names; all, if it is empty.
inline std::vector<bool> marked_dims(std::string_view op, const Shape& shape,
                                     const std::vector<int>& dims) {
  std::vector<bool> marked(static_cast<std::size_t>(shape.rank()), dims.empty());
  for (const int dim : dims) {
    if (shape.rank() == 0 && (dim == 0 || dim == -1)) continue;  // the one element
    const auto i = static_cast<std::size_t>(axis_index(op, shape, dim));
    check(!marked[i], "[{}] dimension {} is named twice", op, dim);
    marked[i] = true;
  }
  return marked;
}

// The shape of what is left of a reduction over the marked dimensions.
inline Shape kept_shape(const Shape& shape, const std::vector<bool>& marked, bool keepdim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = marked[static_cast<std::size_t>(i)];
    if (!reduced || keepdim) result.push_back(reduced ? 1 : shape[i]);
  }
  return result;
}

// The elements that a reduction over the marked dimensions makes one of.
inline std::int64_t marked_count(const Shape& shape, const std::vector<bool>& marked) {
  std::int64_t n = 1;
  for (int i = 0; i < shape.rank(); ++i) n *= marked[static_cast<std::size_t>(i)] ? shape[i] : 1;
  return n;
}

}  // namespace tapegrad
