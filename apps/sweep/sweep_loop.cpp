#include "tapegrad/apps/sweep/sweep_loop.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/sweep/sweep_table.h"
#include "tapegrad/apps/sweep/training_child.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/folder_calls.h"
#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::sweep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The work of a run in a rung, in any unit.
double work_of(const SweepPlan& plan, std::size_t rung) {
  const std::int64_t before = rung == 0 ? 0 : plan.rungs[rung - 1].steps;
  return std::max(1.0, static_cast<double>(plan.rungs[rung].steps - before));
}

// The reason why a run has failed, by its exit code and by all that it has printed.
std::string failure_of(const fs::path& folder, int code) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 28;
  std::string error;
  try {
    error = error_in(read_file(folder / kOutputFile, most_bytes, Links::refused));
  } catch (const Error&) {  // the exit code says something, too
  }
  if (!error.empty()) return error;
  return code < 0 ? fmt::format("signal {} ended it", -code) : fmt::format("exit code {}", code);
}

std::string described(const SweepRecord& record, const RunRecord& run) {
  std::string text;
  for (std::size_t i = 0; i < record.names.size(); ++i) {
    text += fmt::format("{}{}={}", i > 0 ? ", " : "", record.names[i], run.values[i]);
  }
  return text;
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, SweepRecord record) : plan_(plan), record_(std::move(record)) {}

  const SweepRecord& record() const { return record_; }

  // False if it was interrupted.
  bool train() {
    for (std::size_t rung = 0; rung < plan_.rungs.size() && !interrupted(); ++rung) {
      rung_ = rung;
      for (const std::size_t i : members(plan_, record_, rung)) {
        const RunRecord& run = record_.runs[i];
        if (run.error.empty() && run.losses.size() == rung) waiting_.push_back(i);
      }
      if (plan_.rungs.size() > 1 && !waiting_.empty()) {
        terminal_.line(fmt::format("{} up to {}",
                                   counted(static_cast<std::int64_t>(waiting_.size()), "run"),
                                   counted(plan_.rungs[rung].steps, "step")));
      }
      train_waiting();
    }
    return !interrupted();
  }

 private:
  struct Active {
    std::size_t run;
    Clock::time_point begin;
    std::unique_ptr<TrainingChild> child;
  };

  void train_waiting() {
    constexpr int milliseconds = 50;
    while (!active_.empty() || (!waiting_.empty() && !interrupted())) {
      while (!interrupted() && !waiting_.empty() &&
             active_.size() < static_cast<std::size_t>(plan_.jobs)) {
        start(waiting_.front());
        waiting_.pop_front();
      }
      ::poll(nullptr, 0, milliseconds);
      for (const Active& a : active_) {
        if (interrupted()) a.child->stop();
      }
      take_ended();
      if (terminal_.wants_progress()) terminal_.progress(progress());
    }
    waiting_.clear();
  }

  void start(std::size_t i) {
    const RunRecord& run = record_.runs[i];
    const fs::path folder = plan_.folder / run.name;
    run::make_folder(folder);
    const bool resumes = path_exists(folder / run::kTrainerFile);
    std::vector<std::string> args = training_args(plan_, record_, run, rung_, resumes);
    // Such a run has begun and saved nothing.
    if (!resumes && path_exists(folder / run::kConfigFile)) args.push_back("--overwrite");
    active_.push_back(
        {i, Clock::now(), std::make_unique<TrainingChild>(args, folder / kOutputFile)});
  }

  void take_ended() {
    for (std::size_t a = 0; a < active_.size();) {
      const auto code = active_[a].child->ended();
      if (!code) {
        ++a;
        continue;
      }
      take(record_.runs[active_[a].run], *code, seconds_since(active_[a].begin));
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(a));
      save(plan_.folder, record_);
      write_file_atomically(plan_.folder / kTableFile, table_csv(record_));
    }
  }

  void take(RunRecord& run, int code, double seconds) {
    run.seconds += seconds;
    if (code != 0 && interrupted()) return;  // it goes on another time
    const fs::path folder = plan_.folder / run.name;
    const FinalLoss final = final_loss_of(folder);
    run.steps = final.steps;
    if (code != 0) {
      run.error = failure_of(folder, code);
    } else if (std::isnan(final.loss)) {
      run.error = "it has no validation loss";
    } else {
      run.losses.push_back(final.loss);
    }
    work_done_ += work_of(plan_, rung_);
    last_end_ = Clock::now();
    terminal_.line(run.error.empty()
                       ? fmt::format("{}: val loss {} after {}, {} ({})", run.name,
                                     loss_text(run.loss()), counted(run.steps, "step"),
                                     duration_text(run.seconds), described(record_, run))
                       : fmt::format("{}: failed: {} ({})", run.name,
                                     cli::printable(short_error(run)), described(record_, run)));
    std::fflush(stdout);
  }

  // "3/12 done, best 1.5483 (004), 12:05 min left"
  std::string progress() const {
    double left = 0;
    std::size_t count = 0, done = 0;
    for (std::size_t rung = 0; rung < plan_.rungs.size(); ++rung) {
      const std::size_t runs = plan_.rungs[rung].runs;
      const auto through = static_cast<std::size_t>(
          std::count_if(record_.runs.begin(), record_.runs.end(), [&](const RunRecord& r) {
            return r.losses.size() > rung || (!r.error.empty() && r.losses.size() == rung);
          }));
      count += runs, done += std::min(runs, through);
      left += work_of(plan_, rung) * static_cast<double>(runs - std::min(runs, through));
    }
    std::string text = fmt::format("{}/{} done", done, count);
    const RunRecord& best = *ranked(record_).front();
    if (!std::isnan(best.loss())) {
      text += fmt::format(", best {} ({})", loss_text(best.loss()), best.name);
    }
    if (interrupted()) return text + ", saving …";
    if (work_done_ > 0) {
      const double took = std::chrono::duration<double>(last_end_ - begin_).count();
      const double seconds = left / work_done_ * took - seconds_since(last_end_);
      text += fmt::format(", {} left", duration_text(std::max(0.0, seconds)));
    }
    return text;
  }

  const SweepPlan& plan_;
  SweepRecord record_;
  Terminal terminal_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_end_ = begin_;  // of a run
  double work_done_ = 0;                 // by this call, up to then
  std::size_t rung_ = 0;
  std::deque<std::size_t> waiting_;
  std::vector<Active> active_;
};

void print_result(const SweepPlan& plan, const SweepRecord& record) {
  fmt::print("\n{}", table_text(record));
  const RunRecord& best = *ranked(record).front();
  const std::string folder = plan.folder.string();
  if (!std::isnan(best.loss())) {
    std::string command = cli::program_path("tapegrad train");
    for (const std::string& arg : plan.args) command += " " + cli::quoted(arg);
    if (plan.max_minutes) command += fmt::format(" --max-minutes {}", *plan.max_minutes);
    for (std::size_t i = 0; i < record.names.size(); ++i) {
      command += fmt::format(" --{}={}", record.names[i], cli::quoted(best.values[i]));
    }
    fmt::print("\nthe best run, {}:\n  {}\n", (plan.folder / best.name).string(), command);
  }
  fmt::print("all runs on a page:\n  {} {}\n", cli::program_path("tapegrad watch"),
             cli::quoted(folder));
}

}  // namespace

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
  if (resumes) args.insert(args.end(), {"--init-from", "resume"});
  args.insert(args.end(), {"--out-dir", (plan.folder / run.name).string()});
  return args;
}

int run_sweep(const SweepPlan& plan, SweepRecord record) {
  catch_interrupts();
  Sweep sweep(plan, std::move(record));
  const bool done = sweep.train();
  if (!done) {
    fmt::print("interrupted ({}): the runs are saved. This goes on:\n  {}\n", interrupt_cause(),
               plan.command);
    return kInterruptedExitCode;
  }
  print_result(plan, sweep.record());
  return std::isnan(ranked(sweep.record()).front()->loss()) ? 1 : 0;
}

}  // namespace tapegrad::sweep
