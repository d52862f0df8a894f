#include "tapegrad/run/train/time_budget.h"

#include <cstring>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/train/internal/measured_steps.h"
#include "tapegrad/run/train/internal/updater.h"

namespace tapegrad::run {
namespace {

constexpr int kLeastSteps = 3, kSteps = 20;
// kSteps are measured, or more if they are short: steps that take these shares of the budget.
constexpr double kLeastShare = 0.025, kMostShare = 0.05;
// A whole period of updates is measured (SOAP) if it takes less than this share.
constexpr double kPeriodShare = 0.1;
// Checkpoints are counted with what a disk of this rate takes. Training has more to do.
constexpr double kDiskBytesPerSecond = 200e6;

// Restores what measuring changes: parameters, batches and the generator of dropout. Even steps
// with a learning rate of 0 change parameters: −0 may become 0, and an infinite gradient makes NaN.
// check_memory counts the copy.
class Untouched {
 public:
  explicit Untouched(const Task& task) : task_(task), batches_(task.batches.state()) {
    if (task.dropout != nullptr) dropout_ = task.dropout->state();
    for (const auto& [name, parameter] : task.params.parameters()) {
      values_.emplace_back(parameter, parameter.detach().clone());
    }
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;
  ~Untouched() {
    for (auto& [parameter, before] : values_) {
      dispatch(parameter.dtype(), [&, &parameter = parameter, &before = before](auto zero) {
        using T = decltype(zero);
        std::memcpy(parameter.template mutable_data<T>(), before.template data<T>(),
                    parameter.bytes());
      });
    }
    task_.batches.set_state(batches_);
    if (task_.dropout != nullptr) task_.dropout->set_state(dropout_);
  }

 private:
  const Task& task_;
  std::string batches_, dropout_;
  std::vector<std::pair<Tensor, Tensor>> values_;
};

// Rank 0's value, so that all ranks decide the same.
template <class T>
T agreed(T value, Processes* processes) {
  if (processes != nullptr) processes->broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Steps with a learning rate of 0, so that the weights keep away from what they could diverge to:
// of whole periods, if there is one. Nothing if a signal interrupts it.
std::optional<std::vector<StepTimes>> measure_steps(const Task& task,
                                                    const OptimizerOptions& options, double budget,
                                                    Processes* processes) {
  const auto sync = make_sync(task, options, processes);
  Updater updater(task, options, *sync, processes);
  Progress unused;
  const std::int64_t period = optim::longest_period(sync->groups());
  const auto steps =
      measured_steps([&] { return agreed(updater.step(0, unused).times, processes); },
                     [&](int count, double seconds, const StepTimes&) {
                       const bool whole = count >= period || seconds >= kPeriodShare * budget;
                       return count >= kLeastSteps && whole &&
                              (seconds >= kMostShare * budget ||
                               (count >= kSteps && seconds >= kLeastShare * budget));
                     });
  sync->gather_parameters();  // an evaluation is measured next
  if (!steps) return std::nullopt;
  const auto counted = whole_periods(*steps, period);
  return std::vector(counted.begin(), counted.end());
}

// Seconds of a run of so many steps. It always ends with an evaluation and a checkpoint.
double seconds_of_run(std::int64_t steps, const RunCosts& c, const EvaluationOptions& o) {
  const std::int64_t evaluations = o.evaluations().before(steps) + 1;
  const std::int64_t checkpoints = o.checkpoints().before(steps) + 1;
  return static_cast<double>(steps) * (c.step + c.side.each_step) +
         static_cast<double>(evaluations) * c.side.evaluation +
         static_cast<double>(checkpoints) * c.checkpoint + c.side.end;
}

double seconds_left(const TimeBudget& budget) {
  return 60 * budget.minutes - budget.begin.seconds();
}

std::string in_words(double minutes) {
  return fmt::format("{:.4g} minute{}", minutes, minutes == 1 ? "" : "s");
}

}  // namespace

std::int64_t steps_within(double seconds, const RunCosts& costs, const EvaluationOptions& options) {
  std::int64_t fits = 0, too_many = std::int64_t{1} << 40;
  while (fits + 1 < too_many) {
    const std::int64_t middle = (fits + too_many) / 2;
    (seconds_of_run(middle, costs, options) <= seconds ? fits : too_many) = middle;
  }
  return fits;
}

std::optional<FittingSteps> fit_steps(const Task& task, const TrainOptions& options,
                                      Processes* processes) {
  check(task.objective != nullptr, "[train] a task needs an objective");
  const TimeBudget& budget = options.time.value();
  catch_interrupts();
  const HeldInterrupts held(processes != nullptr && !processes->alone());
  const Untouched untouched(task);
  std::optional<std::vector<StepTimes>> measured;
  RunCosts costs{};
  {
    Terminal terminal;
    terminal.working("measuring how long a step takes");
    measured = measure_steps(task, options.optimizer, 60 * budget.minutes, processes);
    if (!measured) return std::nullopt;
    if (task.side_costs) {
      costs.side = task.side_costs();
    } else {
      costs.side.evaluation = seconds_of([&] { task.objective->evaluate(); });
    }
    if (interrupted()) return std::nullopt;
  }
  double seconds = 0;
  for (const StepTimes& step : *measured) seconds += step.total();
  costs.step = seconds / static_cast<double>(measured->size());
  // The weights, those of the best model, and what the optimiser keeps; with averages, the weights
  // that are trained, too.
  const NamedTensors& trained = task.params.parameters();
  const std::int64_t written =
      2 * task.params.total_count() + (options.optimizer.averages() ? task.params.count() : 0);
  const double bytes =
      sizeof(float) * static_cast<double>(written) +
      optim::bytes_kept(trained, optim::make_groups(trained, options.optimizer.rules));
  costs.checkpoint = bytes / kDiskBytesPerSecond;
  const std::int64_t steps =
      agreed(steps_within(seconds_left(budget), costs, options.evaluation), processes);
  const std::string took = fmt::format("{} steps took {:.3g} s", measured->size(), seconds);
  check(steps > 0,
        "not one step fits into {}: {}, an evaluation takes {:.3g} s, and the end of the run "
        "{:.3g} s",
        in_words(budget.minutes), took, costs.side.evaluation, costs.side.end);
  if (budget.most_steps && steps > *budget.most_steps) {
    return FittingSteps{
        *budget.most_steps, in_words(budget.minutes),
        fmt::format("{}, so {} would fit into {}; more than {} would read so short "
                    "a text too often",
                    took, grouped(steps), in_words(budget.minutes), grouped(*budget.most_steps))};
  }
  const double beside =
      seconds_of_run(steps, costs, options.evaluation) - static_cast<double>(steps) * costs.step;
  return FittingSteps{steps, in_words(budget.minutes),
                      fmt::format("{}, so {} steps fit into {}, beside {} for all else", took,
                                  grouped(steps), in_words(budget.minutes), duration_text(beside))};
}

}  // namespace tapegrad::run
