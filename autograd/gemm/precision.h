#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The precision of a matrix product of f32. With `bf16` (mixed precision), operands are rounded to
// bf16 first; sums are f32. With `int8`, linear layers round theirs to 8 bits: int8_rows.h and
// int8_columns.h say how. Results are f32 in any case.
enum class Precision : std::uint8_t { full, bf16, int8 };
inline constexpr std::string_view kPrecisionNames[] = {"f32", "bf16", "int8"};
inline std::span<const std::string_view> names_of(Precision) { return kPrecisionNames; }

// For products of which 8 bits are too few: bf16 in place of int8.
constexpr Precision at_least_bf16(Precision precision) {
  return precision == Precision::int8 ? Precision::bf16 : precision;
}

}  // namespace tapegrad
