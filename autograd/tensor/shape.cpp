#include "tapegrad/autograd/tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tapegrad {

void Shape::fail_rank(std::size_t rank) {
  fail("a shape has at most {} dimensions, not {}", +kMaxRank, rank);
}

void Shape::fail_index(int i) const {
  fail("there is no dimension {} in a tensor of rank {}", i, rank_);
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  bool overflow = false;
  for (const std::int64_t size : *this) {
    check(size >= 0, "a shape cannot have the negative size of {}", *this);
    overflow |= __builtin_mul_overflow(n, size, &n);
  }
  // A zero anywhere makes the tensor empty, however large the other sizes are.
  if (std::find(begin(), end(), 0) != end()) return 0;
  check(!overflow, "shape {} has more elements than can be counted", *this);
  return n;
}

Shape Shape::without(int i) const {
  i = index(i);
  Shape result = *this;
  std::copy(end() - (rank_ - i - 1), end(), result.dims_.begin() + i);
  --result.rank_;
  return result;
}

Shape Shape::with(int i, std::int64_t size) const {
  Shape result = *this;
  result[i] = size;
  return result;
}

Shape Shape::inserted(int i, std::int64_t size) const {
  check(rank_ < kMaxRank, "a shape has at most {} dimensions", +kMaxRank);
  check(i >= 0 && i <= rank_, "cannot insert a dimension at {} into {}", i, *this);
  Shape result = *this;
  std::copy(begin() + i, end(), result.dims_.begin() + i + 1);
  result.dims_[static_cast<std::size_t>(i)] = size;
  ++result.rank_;
  return result;
}

std::string Shape::str() const {
  std::string text = "(";
  for (const std::int64_t size : *this) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + ")";
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const std::int64_t x = result[-i];
    const std::int64_t y = shorter[-i];
    check(x == y || x == 1 || y == 1, "[{}] shapes do not broadcast: {} and {}", op, a, b);
    result[-i] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace tapegrad

fmt::format_context::iterator fmt::formatter<tapegrad::Shape>::format(
    const tapegrad::Shape& shape, fmt::format_context& context) const {
  return fmt::formatter<fmt::string_view>::format(shape.str(), context);
}
