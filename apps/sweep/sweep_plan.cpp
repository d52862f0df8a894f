#include "tapegrad/apps/sweep/sweep_plan.h"

#include <algorithm>
#include <functional>

#include "tapegrad/apps/sweep/sweep_table.h"

namespace tapegrad::sweep {

int fitting_jobs(int most, std::vector<double> bytes, std::optional<double> available) {
  std::sort(bytes.begin(), bytes.end(), std::greater<>());
  int jobs = 0;
  double sum = 0;
  for (const double b : bytes) {
    sum += b;
    if (jobs == most || (available && sum > *available)) break;
    ++jobs;
  }
  return std::max(jobs, 1);
}

std::vector<std::size_t> members(const SweepPlan& plan, const SweepRecord& record,
                                 std::size_t rung) {
  std::vector<double> losses;
  for (const RunRecord& run : record.runs) {
    if (rung == 0) {
      losses.push_back(0);
    } else {
      losses.push_back(run.losses.size() >= rung ? run.losses[rung - 1] : kNoLoss);
    }
  }
  return lowest(losses, plan.rungs[rung].runs);
}

std::vector<std::string> training_args(const SweepPlan& plan, const SweepRecord& record,
                                       const RunRecord& run, std::size_t rung, bool resumes) {
  // Of an option that is there twice, the last value counts: those of `args` replace these.
  std::vector<std::string> args = {"train",       "--final-eval", "all",
                                   "--no-sample", "--threads",    std::to_string(plan.threads)};
  // How many steps the minutes have time for was decided when the run began.
  if (plan.max_minutes && !resumes) {
    args.insert(args.end(), {"--max-minutes", fmt::format("{}", *plan.max_minutes)});
  }
  args.insert(args.end(), plan.args.begin(), plan.args.end());
  for (const std::string& arg : value_args(record, run)) args.push_back(arg);
  const std::int64_t steps = plan.rungs[rung].steps;
  if (steps > 0) args.insert(args.end(), {"--max-iters", std::to_string(steps)});
  // Not from the best one, as an --init-from PATH of `args` may have asked for.
  if (resumes) args.insert(args.end(), {"--init-from", "resume", "--checkpoint", "last"});
  args.insert(args.end(), {"--out-dir", (plan.folder / run.name).string()});
  return args;
}

}  // namespace tapegrad::sweep
