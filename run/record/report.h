#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/terminal.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/plan/time_left.h"
#include "tapegrad/run/record/header_lines.h"
#include "tapegrad/run/record/layer_stats.h"
#include "tapegrad/run/record/losses.h"
#include "tapegrad/run/record/machine_load.h"
#include "tapegrad/run/record/text_chart.h"

namespace tapegrad::run {

// Prints the lines of a run on stdout, and appends their numbers to metrics.jsonl, and those of
// layers to layers.jsonl. A terminal also gets a line of progress below them, and a chart of the
// losses if the options ask for it.
class Report {
 public:
  // The arguments must live as long as this.
  Report(RunFolder& folder, const OptimizerOptions& optimizer, const EvaluationOptions& evaluation,
         const RunHeader& about, const Progress& progress);

  // `groups`: lines on groups of parameters, see group_lines.h. `changes`: options that a resumed
  // run had with other values.
  void header(const std::vector<std::string>& groups = {}, const std::vector<Change>& changes = {});

  // One step. Its time is counted from its construction until step() reports it.
  struct Step {
    explicit Step(double rate) : lr(rate) {}
    double lr, loss = 0, norm = 0;
    std::vector<std::pair<std::string, double>> beside = {};  // see Task
    double loss_z = 0, norm_z = 0;                            // of skip_outliers
    bool skipped = false;
    std::int64_t tokens = 0;
    StepTimes times = {};
    std::vector<LayerMeans> layers = {};  // where --layer-stats looks
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  // Reports step number progress.iteration, and prints every log_interval-th, with the mean time of
  // the steps since the last line, and each that was skipped. Returns the seconds that it took.
  double step(const Step& step);
  void evaluation(const Losses& losses);
  // A line, and its numbers for metrics.jsonl.
  void result(const std::string& text, const RunFolder::Metrics& numbers);
  // Records numbers of the step that the run is at, without a line.
  void record(const RunFolder::Metrics& numbers);
  // Shows on a terminal, until the next line, what the program is doing.
  void working(const std::string& what) { terminal_.working(what); }
  void progress(const std::string& text) {  // rate-limited; safe to call in a loop
    if (terminal_.wants_progress()) terminal_.working(text);
  }
  void line(const std::string& text) { terminal_.line(text); }
  void text(std::string_view piece) { terminal_.text(std::string(piece)); }  // of a sample
  // Prints where the run is, and the commands that may follow.
  void next_steps();
  double training_seconds() const { return progress_.seconds; }
  std::int64_t iteration() const { return progress_.iteration; }
  void stopped();

 private:
  using Clock = std::chrono::steady_clock;
  void print_step(const Step& step);
  void draw_progress(double loss);
  bool draws_chart() const { return evaluation_.chart && terminal_.is_terminal(); }
  void draw_chart();
  void leave_chart();

  RunFolder& folder_;
  const OptimizerOptions& optimizer_;
  const EvaluationOptions& evaluation_;
  const RunHeader& about_;
  const Progress& progress_;
  Terminal terminal_;
  std::optional<Clock::time_point> last_end_;  // of a step of this call
  TimeLeft time_left_;
  MachineLoad load_;
  LossChart chart_;
  std::optional<double> last_loss_;
  double seconds_ = 0;  // of the steps since the last iter line
  std::int64_t steps_ = 0, tokens_ = 0;
};

}  // namespace tapegrad::run
