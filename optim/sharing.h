#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"
#include "tapegrad/optim/local_steps.h"

namespace tapegrad::optim {

// How gradients travel between processes, or differences of weights (local_steps.h). int8 is for
// these alone: 128 values in a row share a scale, the largest magnitude divided by 127.
enum class CommDType : std::uint8_t { f32, bf16, int8 };
inline constexpr std::string_view kCommDTypeNames[] = {"f32", "bf16", "int8"};
inline std::span<const std::string_view> names_of(CommDType) { return kCommDTypeNames; }

// What each of several processes has a part of, and not all: the stages of ZeRO (Rajbhandari,
// Rasley, Ruwase, He: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models; SC
// 2020, section 5). Bits are the same.
//
//   moments     of the optimiser (stage 1), and gradients: the same as
//   gradients   stage 2. Sums have the order of the batches, which their owners alone can keep:
//               each adds up its part while backward goes on, and so nobody has a whole sum.
//   parameters  the weights, too (stage 3; FSDP in PyTorch)
enum class Shard : std::uint8_t { moments, gradients, parameters };
inline constexpr std::string_view kShardNames[] = {"moments", "gradients", "parameters"};
inline std::span<const std::string_view> names_of(Shard) { return kShardNames; }

// How several processes work together.
struct Sharing {
  // How gradients travel between them: bf16 halves the bytes, and rounds each micro-batch's
  // gradients before they are added up. With `local`, it is how differences of weights travel at a
  // meeting, both ways.
  CommDType sent = CommDType::f32;
  Shard shard = Shard::gradients;
  std::optional<LocalSteps> local = {};
};

}  // namespace tapegrad::optim
