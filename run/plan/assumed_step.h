#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/run/plan/step_forecast.h"

namespace tapegrad::run {

// The work of a step, as a dry run finds it.
struct StepWork {
  double forward = 0, backward = 0;      // operations of matrix products, of one batch
  double kept = 0;                       // bytes that the optimiser keeps
  std::vector<std::int64_t> sizes = {};  // of parameters, and `units`: see StepParts
  std::vector<std::int64_t> units = {};
};

// The parts of a step on a machine of which nothing is known but the rate of its matrix products by
// all its threads, in operations per second. Forward and backward take as long as their products.
// The norm and the update take as long as memory has to bring what they read and to take what they
// write: a byte in the time of 16 operations, which is what servers have (32 cores of 100 GFLOP/s
// each beside 200 GB/s). Backward completes the last parameters first.
//
// It does not know the products of an update (Muon, SOAP), averages of weights, or the
// forward pass of a reference or a teacher, which take longer; nor frozen weights, whose gradients
// nobody computes, unless `backward` says so.
StepParts assumed_step(const StepWork& work, double rate, int threads);

}  // namespace tapegrad::run
