#include "tapegrad/run/train/internal/train_plan.h"

#include "tapegrad/base/text/words.h"

namespace tapegrad::run {
namespace {

// A run ends and evaluates where its processes have met: steps are rounded up to such ones, but
// down if they go by the clock.
void take_meetings(TrainPlan& plan, bool by_time) {
  OptimizerOptions& optimizer = plan.options.optimizer;
  EvaluationOptions& evaluation = plan.options.evaluation;
  if (!optimizer.local_steps) return;
  const std::int64_t every = *optimizer.local_steps, steps = optimizer.max_iters;
  if (!by_time) check_meetings(optimizer);
  const StepInterval before = evaluation.evaluations();
  optimizer.max_iters = by_time ? steps - steps % every : optimizer.meeting_from(steps);
  check(!by_time || optimizer.max_iters > 0,
        "{} fit into the time, fewer than --local-steps {}: the processes would never meet",
        counted(steps, "step"), every);
  evaluation.eval_interval = optimizer.meeting_from(before.every);
  evaluation.eval_offset = optimizer.meeting_from(before.first);
  const StepInterval now = evaluation.evaluations();
  if (optimizer.max_iters == steps && now.every == before.every && now.first == before.first)
    return;
  plan.notes.push_back(
      fmt::format("processes meet every {} steps (--local-steps), and so the run has {} steps, and "
                  "evaluates every {}{}",
                  grouped(every), grouped(optimizer.max_iters), grouped(now.every),
                  now.first > 0 ? " from step " + grouped(now.first) + " on" : ""));
}

}  // namespace

void check_meetings(const OptimizerOptions& optimizer) {
  const std::int64_t steps = optimizer.max_iters, every = optimizer.local_steps.value_or(1);
  check(steps == 0 || steps >= every,
        "--local-steps {}: a run of {} is over before its processes meet. Take --local-steps {} or "
        "fewer, or --max-iters {} or more",
        every, counted(steps, "step"), steps, every);
}

TrainPlan resolve(const TrainOptions& options, const TrainFacts& facts,
                  const std::filesystem::path& folder) {
  TrainPlan plan{options, {}, {}, {}};
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
  optimizer.check_meeting_place();
  options.evaluation.validate();
  check(!options.time || !optimizer.meet,
        "max_minutes and meet exclude each other: how long a meeting is waited for, no measurement "
        "tells");
  if (facts.fitting) {
    optimizer.max_iters = facts.fitting->steps;
    plan.minutes = facts.fitting->minutes;
    plan.minutes_reason = facts.fitting->reason;
  }
  take_meetings(plan, facts.fitting.has_value());
  optimizer.lr_decay_iters = optimizer.decay_end();
  optimizer.warmup_iters = optimizer.warmup();
  return plan;
}

}  // namespace tapegrad::run
