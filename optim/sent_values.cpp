#include "tapegrad/optim/internal/sent_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tapegrad/base/half.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

// Calls work(begin, size, scale_at, bytes) for each group of n values: where they begin, how many
// they are, and where their scale and their bytes are.
template <class Byte, class Work>
void for_each_group(std::int64_t n, Byte* at, const Work& work) {
  const std::int64_t groups = (n + kScaled - 1) / kScaled;
  Byte* const bytes = at + groups * static_cast<std::int64_t>(sizeof(float));
  parallel_for(groups, kGrain / kScaled, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t g = first; g < last; ++g) {
      const std::int64_t begin = g * kScaled;
      work(begin, std::min(kScaled, n - begin), at + g * static_cast<std::int64_t>(sizeof(float)),
           bytes + begin);
    }
  });
}

void pack_int8(const float* from, std::uint8_t* to, std::int64_t n) {
  for_each_group(
      n, to,
      [from](std::int64_t begin, std::int64_t size, std::uint8_t* scale_at, std::uint8_t* bytes) {
        constexpr float most = 127;
        float largest = 0, sum = 0;
        for (std::int64_t i = begin; i < begin + size; ++i) {
          largest = std::max(largest, std::abs(from[i]));
          sum += from[i];
        }
        // A NaN may not be the largest, but it is in the sum.
        const bool finite = std::isfinite(largest) && !std::isnan(sum);
        const float scale = finite ? largest / most : std::numeric_limits<float>::quiet_NaN();
        std::memcpy(scale_at, &scale, sizeof(scale));
        for (std::int64_t i = 0; i < size; ++i) {
          const float value = scale > 0 ? std::nearbyint(from[begin + i] / scale) : 0;
          bytes[i] =
              static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(value, -most, most)));
        }
      });
}

void unpack_int8(const std::uint8_t* from, float* to, std::int64_t n) {
  for_each_group(n, from,
                 [to](std::int64_t begin, std::int64_t size, const std::uint8_t* scale_at,
                      const std::uint8_t* bytes) {
                   float scale = 0;
                   std::memcpy(&scale, scale_at, sizeof(scale));
                   for (std::int64_t i = 0; i < size; ++i)
                     to[begin + i] = scale * static_cast<float>(static_cast<std::int8_t>(bytes[i]));
                 });
}

}  // namespace

void pack(CommDType sent, const float* from, std::uint8_t* to, std::int64_t n) {
  if (sent == CommDType::int8) return pack_int8(from, to, n);
  parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    if (sent == CommDType::bf16) {
      auto* out = reinterpret_cast<bf16*>(to);
      for (std::int64_t i = begin; i < end; ++i) out[i] = to_bf16(from[i]);
    } else {
      auto* out = reinterpret_cast<float*>(to);
      std::copy(from + begin, from + end, out + begin);
    }
  });
}

void unpack(CommDType sent, const std::uint8_t* from, float* to, std::int64_t n) {
  if (sent == CommDType::int8) return unpack_int8(from, to, n);
  parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    if (sent == CommDType::bf16) {
      const auto* in = reinterpret_cast<const bf16*>(from);
      for (std::int64_t i = begin; i < end; ++i) to[i] = to_float(in[i]);
    } else {
      const auto* in = reinterpret_cast<const float*>(from);
      std::copy(in + begin, in + end, to + begin);
    }
  });
}

}  // namespace tapegrad::optim
