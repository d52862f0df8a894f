#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/base/interrupt.h"

namespace tapegrad::run {

// Makes steps, whose times `make` returns (StepTimes, or more), until enough(count, seconds, last)
// is true of the number of those that count, the seconds of all, and the times of the last one.
// Returns those that count: the first two get memory from the system and do not, unless there is no
// third. Nothing if a signal interrupts it.
template <class Make, class Enough>
auto measured_steps(const Make& make, const Enough& enough)
    -> std::optional<std::vector<decltype(make())>> {
  constexpr int uncounted = 2;
  std::vector<decltype(make())> steps;
  double seconds = 0;
  int made = 0;
  do {
    if (interrupted()) return std::nullopt;
    steps.push_back(make());
    if (interrupted()) return std::nullopt;
    seconds += steps.back().total();
    ++made;
  } while (!enough(std::max(made - uncounted, 0), seconds, steps.back()));
  steps.erase(steps.begin(), steps.begin() + std::min(uncounted, made - 1));
  return steps;
}

// The last of the steps that make whole periods; all steps if there are fewer than one has.
template <class Step>
std::span<const Step> whole_periods(const std::vector<Step>& steps, std::int64_t period) {
  const std::size_t n = steps.size(), left = n % static_cast<std::size_t>(period);
  return std::span(steps).last(left == n ? n : n - left);
}

}  // namespace tapegrad::run
