#include "tapegrad/apps/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tapegrad/apps/cli/shell.h"
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

int threads_of_run(const SweepPlan& plan, std::size_t runs) {
  const std::size_t side_by_side = std::min(runs, static_cast<std::size_t>(plan.jobs));
  return std::max(1, plan.threads / std::max(1, static_cast<int>(side_by_side)));
}

std::vector<std::string> training_args(const SweepPlan& plan, const SweepRecord& record,
                                       const RunRecord& run, const Start& start) {
  // Of an option that is there twice, the last value counts: those of `args` replace these.
  std::vector<std::string> args = {"train",       "--final-eval", "all",
                                   "--no-sample", "--threads",    std::to_string(start.threads)};
  // How many steps the minutes have time for was decided when the run began.
  if (plan.max_minutes && !start.resumes) {
    args.insert(args.end(), {"--max-minutes", fmt::format("{}", *plan.max_minutes)});
  }
  args.insert(args.end(), plan.args.begin(), plan.args.end());
  for (const std::string& arg : value_args(record, run)) args.push_back(arg);
  const std::int64_t steps = plan.rungs[start.rung].steps;
  if (steps > 0) args.insert(args.end(), {"--max-iters", std::to_string(steps)});
  // Not from the best one, as an --init-from PATH of `args` may have asked for.
  if (start.resumes) args.insert(args.end(), {"--init-from", "resume", "--checkpoint", "last"});
  args.insert(args.end(), {"--out-dir", (plan.folder / run.name).string()});
  return args;
}

std::string command_of_run(const SweepPlan& plan, const SweepRecord& record, const RunRecord& run) {
  std::string command = cli::program_path("tapegrad train");
  for (const std::string& arg : plan.args) command += " " + cli::quoted(arg);
  if (plan.max_minutes) command += fmt::format(" --max-minutes {}", *plan.max_minutes);
  for (std::size_t i = 0; i < record.names.size(); ++i) {
    command += fmt::format(" --{}={}", record.names[i], cli::quoted(run.values[i]));
  }
  // Through all rungs, a run has made the steps that the options say.
  const std::size_t passed = run.losses.size();
  if (passed > 0 && passed < plan.rungs.size()) {
    command += fmt::format(" --max-iters {}", plan.rungs[passed - 1].steps);
  }
  return command;
}

}  // namespace tapegrad::sweep
