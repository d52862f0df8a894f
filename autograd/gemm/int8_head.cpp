#include "tapegrad/autograd/gemm/int8_head.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

struct Peak {
  std::int64_t at;
  float value;
};

// Where the largest magnitude of n numbers is: the first of equal ones. NaN is above infinity.
std::int64_t largest_at(const float* x, std::int64_t n) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & kMagnitude);
  }
  std::int64_t at = 0;
  while ((std::bit_cast<std::uint32_t>(x[at]) & kMagnitude) != most) ++at;
  return at;
}

// Sets them to 0.
std::vector<Peak> take_peaks(std::int64_t rows, std::int64_t n, float* x) {
  std::vector<Peak> peaks(static_cast<std::size_t>(rows));
  constexpr std::int64_t kGrain = 16384;
  parallel_for(rows, 1 + kGrain / n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = largest_at(x + i * n, n);
      peaks[static_cast<std::size_t>(i)] = {at, std::exchange(x[i * n + at], 0.0F)};
    }
  });
  return peaks;
}

void add_row(float factor, const float* __restrict from, std::int64_t n, float* __restrict to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

}  // namespace

Int8Head::Int8Head(const float* x, const float* weight, std::int64_t classes, std::int64_t channels,
                   float* dx, float* dweight)
    : x_(x),
      weight_(weight),
      classes_(classes),
      channels_(channels),
      dx_(dx),
      dweight_(dweight),
      rounded_(weight, classes, channels, channels) {}

void Int8Head::logits(std::int64_t first, std::int64_t n, float* to) const {
  const Int8Rows rows(x_ + first * channels_, n, channels_, channels_);
  multiply(rows, rounded_, to, classes_, false);
}

void Int8Head::add_gradients(std::int64_t first, std::int64_t n, float* of_logits) const {
  const std::vector<Peak> peaks = take_peaks(n, classes_, of_logits);
  const float* const x = x_ + first * channels_;
  if (dx_ != nullptr) {
    float* const dx = dx_ + first * channels_;
    multiply_back(of_logits, n, rounded_, dx, {.block = kBlock, .stochastic = true});
    parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Peak peak = peaks[static_cast<std::size_t>(i)];
        add_row(peak.value, weight_ + peak.at * channels_, channels_, dx + i * channels_);
      }
    });
  }
  if (dweight_ != nullptr) {
    multiply_columns(Int8Columns(of_logits, n, classes_, true), Int8Columns(x, n, channels_),
                     dweight_, first > 0);
    parallel_for(channels_, 64, [&](std::int64_t begin, std::int64_t end) {  // rows share classes
      for (std::int64_t i = 0; i < n; ++i) {
        const Peak peak = peaks[static_cast<std::size_t>(i)];
        add_row(peak.value, x + i * channels_ + begin, end - begin,
                dweight_ + peak.at * channels_ + begin);
      }
    });
  }
}

}  // namespace tapegrad
