#include "tapegrad/autograd/quantized/read_rate.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"

namespace tapegrad {
namespace {

// Some bits of the memory, so that it is read.
std::uint64_t read_once(std::span<const std::byte> memory) {
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kAhead = 32 * kLine;  // as the kernels do, see store_sums.h
  std::atomic<std::uint64_t> seen{0};
  const auto lines = static_cast<std::int64_t>(memory.size()) / kLine;
  parallel_for(lines, 1 << 10, [&](std::int64_t begin, std::int64_t end) {
    typedef std::uint64_t Line __attribute__((vector_size(kLine)));
    Line sums[4] = {};
    const std::byte* from = memory.data() + begin * kLine;
    for (std::int64_t i = begin; i + 4 <= end; i += 4, from += 4 * kLine) {
      for (int k = 0; k < 4; ++k) {
        Line line;
        std::memcpy(&line, from + k * kLine, sizeof line);
        __builtin_prefetch(from + k * kLine + kAhead);
        sums[k] |= line;
      }
    }
    const Line all = (sums[0] | sums[1]) | (sums[2] | sums[3]);
    seen |= all[0] | all[7];
  });
  return seen;
}

}  // namespace

double read_rate(const std::vector<std::span<const std::byte>>& memory) {
  std::size_t bytes = 0;
  for (const auto& part : memory) bytes += part.size();
  double best = 0;
  volatile std::uint64_t seen = 0;
  for (int tries = 0; tries < 4; ++tries) {
    const double seconds = seconds_of([&] {
      for (const auto& part : memory) seen = seen | read_once(part);
    });
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace tapegrad
