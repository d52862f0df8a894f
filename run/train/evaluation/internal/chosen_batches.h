#pragma once

#include <algorithm>
#include <cstdint>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/run/train/evaluation/evaluate.h"

namespace tapegrad::run {

// Calls use(i) with ascending numbers, evenly spread over `count` batches: with all of them, or
// with as many as options.limit allows. Returns how many were used: fewer if a signal interrupts.
template <class Use>
std::int64_t use_chosen_batches(std::int64_t count, const WindowOptions& options, const Use& use) {
  const std::int64_t chosen = std::min(count, options.limit.batches.value_or(count));
  std::int64_t done = 0;
  const Stopwatch watch;
  while (done < chosen && !interrupted()) {
    use(done * count / chosen);
    ++done;
    const double spent = watch.seconds();
    const double share = static_cast<double>(done) / static_cast<double>(chosen);
    if (options.on_progress) options.on_progress(share, spent / share - spent);
  }
  return done;
}

}  // namespace tapegrad::run
