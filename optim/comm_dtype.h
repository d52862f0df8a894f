#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// How gradients travel between processes.
enum class CommDType : std::uint8_t { f32, bf16 };
inline constexpr std::string_view kCommDTypeNames[] = {"f32", "bf16"};
inline std::span<const std::string_view> names_of(CommDType) { return kCommDTypeNames; }

}  // namespace tapegrad::optim
