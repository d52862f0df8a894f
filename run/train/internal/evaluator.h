#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "tapegrad/run/record/report.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// Evaluates a run when that is due, and knows its best loss.
class Evaluator {
 public:
  // All but the options must live as long as this.
  Evaluator(const Task& task, const TrainOptions& options, Report& report, Progress& progress,
            Processes* processes)
      : task_(task),
        steps_(options.evaluation.evaluations()),
        early_stop_(options.evaluation.early_stop),
        clips_(options.optimizer.grad_clip != 0),
        report_(report),
        progress_(progress),
        processes_(processes) {}

  bool due() const { return steps_.due(progress_.iteration); }

  // True if the validation loss is the lowest so far, as `progress` then says. A signal may
  // interrupt it. Error, for people, if a loss is not a number.
  bool evaluate() {
    auto losses = task_.objective->evaluate();
    if (!losses) return false;
    if (processes_ != nullptr) agree_on(*losses);
    report_.evaluation(*losses);
    check(std::isfinite(losses->train) && std::isfinite(losses->val),
          "the loss of step {} is not a number: the weights are broken. Lower the learning "
          "rate{}. --check-finite names the op that made the first NaN or infinity",
          progress_.iteration, clips_ ? "" : " or clip the gradients");
    if (progress_.best_val_loss && losses->val >= *progress_.best_val_loss) return false;
    progress_.best_val_loss = losses->val;
    progress_.best_iteration = progress_.iteration;
    return true;
  }

  // True, after a line that says so, if too many evaluations have come since the best one.
  bool stops_early() const {
    if (!early_stop_ || !progress_.best_val_loss) return false;
    const std::int64_t since =
        steps_.before(progress_.iteration + 1) - steps_.before(progress_.best_iteration + 1);
    if (since < *early_stop_) return false;
    report_.line(fmt::format("no new lowest val loss in {} evaluations: --early-stop ends here",
                             *early_stop_));
    return true;
  }

 private:
  // Ranks on other processors may differ in the last bits, and decide by the losses.
  void agree_on(Losses& losses) const {
    double both[] = {losses.train, losses.val};
    processes_->broadcast(std::as_writable_bytes(std::span(both)));
    losses.train = both[0];
    losses.val = both[1];
  }

  const Task& task_;
  const StepInterval steps_;
  const std::optional<std::int64_t> early_stop_;
  const bool clips_;  // gradients
  Report& report_;
  Progress& progress_;
  Processes* const processes_;
};

}  // namespace tapegrad::run
