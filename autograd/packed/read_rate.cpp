#include "tapegrad/autograd/packed/read_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

double read_rate() {
  constexpr std::int64_t kLines = 1 << 22;  // of 64 bytes: far more than caches hold
  constexpr std::int64_t kAhead = 32;       // as the kernels do, see store_sums.h
  const Scratch block(kLines * 64);
  auto* const words = static_cast<std::uint64_t*>(block.data());
  parallel_for(kLines * 8, 1 << 16, [=](std::int64_t begin, std::int64_t end) {
    std::fill(words + begin, words + end, 1);
  });
  std::atomic<std::uint64_t> sum{0};  // of what was read, so that it is
  const auto pass = [&] {
    parallel_for(kLines, 1 << 12, [&](std::int64_t begin, std::int64_t end) {
      typedef std::uint64_t Line __attribute__((vector_size(64)));
      Line sums[4] = {};
      for (std::int64_t i = begin; i + 4 <= end; i += 4) {
        for (int k = 0; k < 4; ++k) {
          Line line;
          std::memcpy(&line, words + 8 * (i + k), sizeof line);
          __builtin_prefetch(words + 8 * (i + k + kAhead));
          sums[k] |= line;
        }
      }
      const Line all = (sums[0] | sums[1]) | (sums[2] | sums[3]);
      sum += all[0] | all[7];
    });
  };
  double best = 0;
  for (int tries = 0; tries < 8; ++tries) {
    const auto begin = std::chrono::steady_clock::now();
    pass();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(kLines * 64) / took.count());
  }
  return sum > 0 ? best : 0;
}

}  // namespace tapegrad
