#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// How long further steps will take: as long as the latest ones, plus the mean time between steps.
// A step of t seconds gives the steps before it exp(−t / 30 s) of their weight. Once a few steps
// are known, one counts as ten times their mean at most, so that a machine that stood still for a
// while is soon forgotten.
class TimeLeft {
 public:
  // A step, and the time between the step before it and this one: for evaluations, say. It should
  // be 0 for the first step.
  void add(double step, double between) {
    constexpr double half_minute = 30, most_means = 10, few = 3;
    if (steps_ >= few) step = std::min(step, most_means * mean());
    const double kept = std::exp(-step / half_minute);
    weight_ = kept * weight_ + 1;
    seconds_ = kept * seconds_ + step;
    between_ += between;
    ++steps_;
  }
  // Seconds for so many further steps; 0 before any step is known.
  double seconds(std::int64_t steps) const {
    return steps_ == 0 ? 0 : static_cast<double>(steps) * (mean() + between_ / steps_);
  }

 private:
  double mean() const { return seconds_ / weight_; }

  double weight_ = 0, seconds_ = 0, between_ = 0, steps_ = 0;
};

}  // namespace tapegrad::run
