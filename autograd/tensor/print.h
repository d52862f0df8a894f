#pragma once

#include <fmt/core.h>

#include <iosfwd>
#include <string>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

class Tensor;

// A tensor as text, in PyTorch's layout:
//
//   tensor([[1.0000, 2.0000],
//           [3.0000, 4.0000]], shape=(2, 2), dtype=f32)
//
// Floats have 4 decimals. They are in scientific notation if the largest magnitude is above 1e8,
// the smallest above 0 is below 1e-4, or the two differ by a factor above 1000; whole numbers end
// in a point. These are PyTorch's rules. Of a tensor with more than 1,000 elements, a dimension of
// more than 6 shows its first and last 3. An undefined tensor is "tensor(undefined)".
std::string to_string(const Tensor& t);
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tapegrad

template <>
struct fmt::formatter<tapegrad::Tensor> : fmt::formatter<fmt::string_view> {
  fmt::format_context::iterator format(const tapegrad::Tensor& t,
                                       fmt::format_context& context) const;
};
