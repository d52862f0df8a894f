#pragma once

#include <cstdint>

#include "tapegrad/optim/sharing.h"

namespace tapegrad::optim {

// Floats as they travel between processes.

// Values of int8 that share a scale, which comes before all of them.
inline constexpr std::int64_t kScaled = 128;

// Bytes of n of them.
inline std::int64_t bytes_sent(CommDType sent, std::int64_t n) {
  constexpr auto scale = static_cast<std::int64_t>(sizeof(float));
  if (sent == CommDType::int8) return n + scale * ((n + kScaled - 1) / kScaled);
  return n * (sent == CommDType::bf16 ? 2 : 4);
}
// Both by all threads. `to` and `from` have bytes_sent(sent, n) bytes. Values that are not finite
// stay so.
void pack(CommDType sent, const float* from, std::uint8_t* to, std::int64_t n);
void unpack(CommDType sent, const std::uint8_t* from, float* to, std::int64_t n);

}  // namespace tapegrad::optim
