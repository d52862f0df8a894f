#pragma once

#include <cstdint>

namespace tapegrad {

// Whether the f32 operands of a matrix product are rounded to bf16 first. Sums are f32 either way.
enum class Precision : std::uint8_t { full, bf16 };

}  // namespace tapegrad
