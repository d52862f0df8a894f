#include "tapegrad/apps/sweep/sweep_loop.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <set>
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
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::sweep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The way in which somebody else has stopped a run that could have gone on; empty if nobody has. A
// run that crashes (SIGSEGV, say) has failed: it would crash again.
std::string stop_of(int code, const fs::path& folder) {
  if (code == TrainingChild::kNoStatus) return "nobody knows how it ended";
  if (code == kInterruptedExitCode) return "it was interrupted";
  for (const int signal : {SIGKILL, SIGINT, SIGTERM, SIGHUP}) {
    if (code == -signal) return fmt::format("signal {} ended it", signal);
  }
  // That program came between is_held() and the lock of the run, whose own is gone by now.
  return code != 0 && run::is_locked(folder) ? "another program trains in its folder" : "";
}

// The work of a run in a rung, in any unit.
double work_of(const SweepPlan& plan, std::size_t rung) {
  const std::int64_t before = rung == 0 ? 0 : plan.rungs[rung - 1].steps;
  return std::max(1.0, static_cast<double>(plan.rungs[rung].steps - before));
}

std::size_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::size_t>(size);
}

// The reason why a run has failed, by its exit code and by what it has printed from a byte on:
// earlier calls have their own reasons.
std::string failure_of(const fs::path& folder, std::size_t begin, int code) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 28;
  std::string error;
  try {
    const std::string output = read_file(folder / kOutputFile, most_bytes, Links::refused);
    error = error_in(output.substr(std::min(begin, output.size())));
  } catch (const Error&) {  // the exit code says something, too
  }
  if (!error.empty()) return error;
  return code < 0 ? fmt::format("signal {} ended it", -code) : fmt::format("exit code {}", code);
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, SweepRecord record) : plan_(plan), record_(std::move(record)) {}

  const SweepRecord& record() const { return record_; }
  // True if somebody else has stopped a run.
  bool lacks_runs() const { return lacks_runs_; }

  // False if it was interrupted. Where a run was stopped, no rung follows, which is of the best of
  // all.
  bool train() {
    for (std::size_t rung = 0; rung < plan_.rungs.size() && !interrupted() && !lacks_runs_;
         ++rung) {
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
    std::size_t output_begin;  // in its output.txt
    std::unique_ptr<TrainingChild> child;
  };

  void train_waiting() {
    constexpr int milliseconds = 50;
    while (!active_.empty() || (!waiting_.empty() && !interrupted())) {
      while (!interrupted() && active_.size() < static_cast<std::size_t>(plan_.jobs)) {
        if (!start_next()) break;
      }
      ::poll(nullptr, 0, milliseconds);
      if (interrupted()) stop_runs();
      take_ended();
      if (terminal_.wants_progress()) terminal_.progress(progress());
    }
    waiting_.clear();
  }

  // While the runs save, only another Ctrl-C ends this program at once, and the runs with it: where
  // a session ends, SIGTERM and SIGHUP come one after the other.
  void stop_runs() {
    for (const int signal : {SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
    for (const Active& a : active_) a.child->stop();
  }

  // True while another program trains in the folder of a run: one that a killed sweep has left, and
  // that saves, say.
  bool is_held(std::size_t i) {
    const std::string& name = record_.runs[i].name;
    if (!run::is_locked(plan_.folder / name)) return false;
    if (held_.insert(i).second) {
      terminal_.line(
          fmt::format("{}: waits for another program, which trains in its folder", name));
      std::fflush(stdout);
    }
    return true;
  }

  // Starts the first waiting run whose folder is free. False if there is none.
  bool start_next() {
    const auto next =
        std::find_if(waiting_.begin(), waiting_.end(), [&](std::size_t i) { return !is_held(i); });
    if (next == waiting_.end()) return false;
    start(*next);
    waiting_.erase(next);
    return true;
  }

  void start(std::size_t i) {
    held_.erase(i);
    const RunRecord& run = record_.runs[i];
    const fs::path folder = plan_.folder / run.name, output = folder / kOutputFile;
    run::make_folder(folder);
    const bool resumes = path_exists(folder / run::kTrainerFile);
    const int threads = threads_of_run(plan_, active_.size() + waiting_.size());
    std::vector<std::string> args =
        training_args(plan_, record_, run, {.rung = rung_, .resumes = resumes, .threads = threads});
    // Such a run has begun and saved nothing.
    if (!resumes && path_exists(folder / run::kConfigFile)) args.push_back("--overwrite");
    active_.push_back(
        {i, Clock::now(), size_of(output), std::make_unique<TrainingChild>(args, output)});
  }

  void take_ended() {
    for (std::size_t a = 0; a < active_.size();) {
      const auto code = active_[a].child->ended();
      if (!code) {
        ++a;
        continue;
      }
      take(active_[a], *code);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(a));
      save(plan_.folder, record_);
      write_file_atomically(plan_.folder / kTableFile, table_csv(record_));
    }
  }

  void take(const Active& ended, int code) {
    RunRecord& run = record_.runs[ended.run];
    run.seconds += seconds_since(ended.begin);
    if (code != 0 && interrupted()) return;  // it goes on another time
    const fs::path folder = plan_.folder / run.name;
    if (const std::string stop = stop_of(code, folder); !stop.empty()) {
      lacks_runs_ = true;
      terminal_.line(fmt::format("{}: not done: {} ({})", run.name, stop, described(record_, run)));
      std::fflush(stdout);
      return;
    }
    const FinalLoss final = final_loss_of(folder);
    run.steps = final.steps;
    if (code != 0) {
      run.error = failure_of(folder, ended.output_begin, code);
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
  bool lacks_runs_ = false;
  std::deque<std::size_t> waiting_;
  std::set<std::size_t> held_;  // runs that wait for their folders
  std::vector<Active> active_;
};

void print_result(const SweepPlan& plan, const SweepRecord& record) {
  fmt::print("\n{}", table_text(record));
  const RunRecord& best = *ranked(record).front();
  const std::string folder = plan.folder.string();
  if (!std::isnan(best.loss())) {
    fmt::print("\nthe best run, {}:\n  {}\n", (plan.folder / best.name).string(),
               command_of_run(plan, record, best));
  }
  fmt::print("all runs on a page:\n  {} {}\n", cli::program_path("tapegrad watch"),
             cli::quoted(folder));
}

}  // namespace

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
  if (sweep.lacks_runs()) {
    fmt::print("runs were stopped before they were done. This goes on with them:\n  {}\n",
               plan.command);
    return 1;
  }
  return std::isnan(ranked(sweep.record()).front()->loss()) ? 1 : 0;
}

}  // namespace tapegrad::sweep
