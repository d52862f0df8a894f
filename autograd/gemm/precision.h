#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The precision of a matrix product of f32. With `bf16` (mixed precision), operands are rounded to
// bf16 first. Sums are f32 either way.
enum class Precision : std::uint8_t { full, bf16 };
inline constexpr std::string_view kPrecisionNames[] = {"f32", "bf16"};
inline std::span<const std::string_view> names_of(Precision) { return kPrecisionNames; }

}  // namespace tapegrad
