#pragma once

#include <cstdint>
#include <limits>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// All elements of a dimension, in x[{all, 0}].
struct All {};
inline constexpr All all;

// Elements [begin, end) of a dimension. Negative numbers count from the end; Range(2) has all from
// element 2 on, Range(-3) the last three.
struct Range {
  static constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();
  constexpr explicit Range(std::int64_t first, std::int64_t last = kToTheEnd)
      : begin(first), end(last) {}
  std::int64_t begin, end;
};

// What Tensor::operator[] takes of one dimension: all of it, a range, or one index, whose dimension
// is removed. A negative index counts from the end.
struct Subscript {
  constexpr Subscript(All) {}
  constexpr Subscript(Range part) : range(part) {}
  constexpr Subscript(std::int64_t i) : range(i), is_index(true) {}
  Range range{0};
  bool is_index = false;
};

}  // namespace tapegrad
