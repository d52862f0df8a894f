#pragma once

#include <cstdint>

namespace tapegrad {

// Of a product of matrices: whether its operands, which are f32, are rounded to bf16. Sums are f32
// either way.
enum class Precision : std::uint8_t { full, bf16 };

}  // namespace tapegrad
