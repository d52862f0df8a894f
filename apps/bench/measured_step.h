#pragma once

#include <functional>
#include <optional>

#include "tapegrad/apps/bench/trial.h"
#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/run/plan/memory_estimate.h"

namespace tapegrad::bench {

// Seconds after which no part of --plan's measuring begins that would not end in time.
inline constexpr double kMostMeasuring = 20;

// The measured phases of a step of so many sequences.
struct MeasuredStep {
  Trial::Phases phases;
  std::int64_t rows;  // sequences that were measured; of less than all, the times are scaled
  bool whole_period;  // false: the update may lack what is done once in a period
};

// Measures steps of B sequences for about two seconds, or of fewer where these take too long. Two
// steps before them, which get memory from the system, do not count if there is time. The result
// is the median step. Where updates have a period (Optimizer::period), their time is the mean of
// whole periods, as far as there is time for one, and it has at most 20 steps. Nothing if a signal
// interrupts it. `seconds_left` of kMostMeasuring.
std::optional<MeasuredStep> measured_step(Trial& trial, std::int64_t B, std::int64_t T,
                                          const std::function<double()>& seconds_left);

// A prediction that needs no model, so that it takes no time.
struct PredictedStep {
  double making;  // seconds to make the model and get its memory
  double step;    // of one batch, by the rate of its products
  double rate;    // operations per second of these, by that of a product forward
};
PredictedStep predicted_step(double flops, const Product& product, Precision precision,
                             const run::MemoryEstimate& memory);

}  // namespace tapegrad::bench
