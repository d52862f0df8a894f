#pragma once

#include <algorithm>
#include <cstdint>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/run/train/evaluation/evaluate.h"

namespace tapegrad::run {

// Calls use(i) with ascending numbers, evenly spread over `count` batches: with all of them, or
// with as many as options.limit allows, one at least. The first one tells how many the seconds are
// enough for. Returns how many were used: fewer if a signal interrupts.
template <class Use>
std::int64_t use_chosen_batches(std::int64_t count, const WindowOptions& options, const Use& use) {
  std::int64_t chosen = std::min(count, options.limit.batches.value_or(count)), done = 0;
  const Stopwatch watch;
  while (done < chosen && !interrupted()) {
    use(done * count / chosen);
    ++done;
    const double spent = watch.seconds();
    if (done == 1 && options.limit.seconds) {
      const double fitting = std::max(1.0, *options.limit.seconds / spent);
      if (fitting < static_cast<double>(chosen)) chosen = static_cast<std::int64_t>(fitting);
    }
    const double share = static_cast<double>(done) / static_cast<double>(chosen);
    if (options.on_progress) options.on_progress(share, spent / share - spent);
  }
  return done;
}

}  // namespace tapegrad::run
