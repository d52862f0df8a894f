#pragma once

#include <array>
#include <cstddef>
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
    if (dims.size() > kMaxRank) fail_rank(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }

  int rank() const { return rank_; }
  // Dimension i; a negative i counts from the end, as in dim(-1). Error if there is no such
  // dimension.
  std::int64_t operator[](int i) const { return dims_[index(i)]; }
  std::int64_t& operator[](int i) { return dims_[index(i)]; }
  // i as a plain index: -1 becomes rank - 1.
  int index(int i) const {
    if (i < -rank_ || i >= rank_) fail_index(i);
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
  bool operator==(const Shape& other) const;
  std::string str() const;  // "(2, 3)"

 private:
  [[noreturn]] static void fail_rank(std::size_t rank);
  [[noreturn]] void fail_index(int i) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// The shape that a and b broadcast to (NumPy's rules: aligned at the last dimension, 1 stretches).
// `op` names the op in the error.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

}  // namespace tapegrad

template <>
struct fmt::formatter<tapegrad::Shape> : fmt::formatter<fmt::string_view> {
  fmt::format_context::iterator format(const tapegrad::Shape& shape,
                                       fmt::format_context& context) const;
};
