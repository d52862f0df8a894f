#include "tapegrad/run/train/resolved_options.h"

#include <utility>

#include "tapegrad/run/train/time_budget.h"

namespace tapegrad::run {

std::optional<const ResolvedOptions> resolved(TrainOptions o, const Task& task,
                                              const RunFolder& folder) {
  ResolvedOptions s{std::move(o), {}, {}};
  OptimizerOptions& optimizer = s.options.optimizer;
  if (folder.resumes()) {
    const std::int64_t made = folder.first_step();
    check(!s.options.time, "a time is for new runs: this one has made {} steps", made);
    check(made <= optimizer.max_iters,
          "the run in {} has made {} steps already: max_iters {} leaves none to make",
          folder.path().string(), made, optimizer.max_iters);
    if (s.options.restart_schedule) optimizer.schedule_begin = made;
  }
  optimizer.validate();
  s.options.evaluation.validate();
  if (s.options.time) {
    auto fitting = fit_steps(task, s.options, folder.processes());
    if (!fitting) return std::nullopt;
    optimizer.max_iters = fitting->steps;
    s.minutes = std::move(fitting->minutes);
    s.minutes_reason = std::move(fitting->reason);
  }
  optimizer.lr_decay_iters = optimizer.decay_end();
  optimizer.warmup_iters = optimizer.warmup();
  return s;
}

}  // namespace tapegrad::run
