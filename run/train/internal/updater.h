#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/run/record/report.h"
#include "tapegrad/run/train/internal/in_order.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// The updates that the options ask for, of all parameters that the task trains.
std::unique_ptr<optim::GradientSync> make_sync(const Task& task, const OptimizerOptions& options,
                                               Processes* processes);

// Makes the steps of the optimiser, with gradient accumulation: the mean gradient of as many
// batches as the options say, clipped, goes into `sync`, unless the options skip outliers and the
// step is one.
//
// Of several processes, rank r has the batches r, r + R, r + 2R … (with groups, see RankOrder), and
// passes over the others as if it had seen them. So all of them, and one process alone, make the
// same step. If a signal has asked one of them to stop, it interrupts all.
class Updater {
 public:
  // The references must live as long as this.
  Updater(const Task& task, const OptimizerOptions& options, optim::GradientSync& sync,
          Processes* processes = nullptr);

  // A step with the learning rate `lr`. What it needs to know of earlier steps is in `progress`.
  // With `stats`, it also takes the means of the step's layers. They change nothing.
  Report::Step step(double lr, Progress& progress, LayerStats* stats = nullptr);

 private:
  struct BatchLoss {
    double loss, norm;  // that of the gradient of the process that had it
    std::int64_t tokens;
    std::array<double, kMostMetrics> metrics;
  };
  int rank() const { return processes_ == nullptr ? 0 : processes_->rank(); }
  std::vector<double> shares() const;
  std::vector<double> gradient_shares(std::vector<double> shares) const;
  std::vector<BatchLoss> add_gradients(const std::vector<double>& shares, StepTimes& times);
  void find_outlier(Report::Step& step, Progress& progress) const;

  const Task& task_;
  const std::int64_t batches_;  // of a step
  const double max_norm_;
  const optim::DecayFactor decay_;
  const std::optional<double> most_deviations_;  // of a step that is no outlier
  const bool check_finite_;
  const bool local_;  // each process steps by its own batches
  optim::GradientSync& sync_;
  Processes* const processes_;
  RankOrder order_;
};

}  // namespace tapegrad::run
