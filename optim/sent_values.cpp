#include "tapegrad/optim/internal/sent_values.h"

#include <algorithm>

#include "tapegrad/base/half.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

}  // namespace

void pack(CommDType sent, const float* from, std::uint8_t* to, std::int64_t n) {
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
