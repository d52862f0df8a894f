#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tapegrad/base/error.h"

namespace tapegrad {

// The sizes of a tensor's dimensions, outermost first; () is a scalar. Held in place, without heap
// memory, since every tensor and every recorded step has one.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    check(dims.size() <= kMaxRank, "a shape has at most {} dimensions, not {}", +kMaxRank,
          dims.size());
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }

  int rank() const { return rank_; }
  // Dimension i; a negative i counts from the end, as in dim(-1). Error if there is no such
  // dimension.
  std::int64_t operator[](int i) const { return dims_[index(i)]; }
  std::int64_t& operator[](int i) { return dims_[index(i)]; }
  // i as a plain index: -1 becomes rank - 1.
  int index(int i) const {
    check(i >= -rank_ && i < rank_, "there is no dimension {} in a tensor of rank {}", i, rank_);
    return i < 0 ? i + rank_ : i;
  }
  // Number of elements: the product of all sizes, 1 for a scalar. Error on a negative size or
  // overflow.
  std::int64_t numel() const;

  Shape without(int i) const;                      // dimension i removed
  Shape with(int i, std::int64_t size) const;      // dimension i resized
  Shape inserted(int i, std::int64_t size) const;  // a new dimension before i
  void push_back(std::int64_t size) { *this = inserted(rank_, size); }

  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  std::string str() const;  // "(2, 3)"

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// The shape that a and b broadcast to (NumPy's rules: aligned at the last dimension, 1 stretches).
// `op` names the op in the error.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

}  // namespace tapegrad

template <>
struct fmt::formatter<tapegrad::Shape> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const tapegrad::Shape& shape, Context& context) const {
    return fmt::formatter<std::string>::format(shape.str(), context);
  }
};
