#include "tapegrad/run/train/internal/train_plan.h"

namespace tapegrad::run {

TrainPlan resolve(const TrainOptions& options, const TrainFacts& facts,
                  const std::filesystem::path& folder) {
  TrainPlan plan{options, {}, {}};
  OptimizerOptions& optimizer = plan.options.optimizer;
  if (facts.steps_made) {
    const std::int64_t made = *facts.steps_made;
    check(!options.time, "a time is for new runs: this one has made {} steps", made);
    check(made <= optimizer.max_iters,
          "the run in {} has made {} steps already: max_iters {} leaves none to make",
          folder.string(), made, optimizer.max_iters);
    if (options.restart_schedule) optimizer.schedule_begin = made;
  }
  optimizer.validate();
  options.evaluation.validate();
  if (facts.fitting) {
    optimizer.max_iters = facts.fitting->steps;
    plan.minutes = facts.fitting->minutes;
    plan.minutes_reason = facts.fitting->reason;
  }
  optimizer.lr_decay_iters = optimizer.decay_end();
  optimizer.warmup_iters = optimizer.warmup();
  return plan;
}

}  // namespace tapegrad::run
