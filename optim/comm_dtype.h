#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// How gradients travel between processes, or differences of weights (local_steps.h). int8 is for
// these alone: 128 values in a row share a scale, the largest magnitude divided by 127.
enum class CommDType : std::uint8_t { f32, bf16, int8 };
inline constexpr std::string_view kCommDTypeNames[] = {"f32", "bf16", "int8"};
inline std::span<const std::string_view> names_of(CommDType) { return kCommDTypeNames; }

}  // namespace tapegrad::optim
