#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/stopwatch.h"
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
  // The folder, `about` and `progress` must live as long as this.
  Report(RunFolder& folder, const OptimizerOptions& optimizer, const EvaluationOptions& evaluation,
         const RunHeader& about, const Progress& progress);

  // `lines`: see header_lines.h. `changes`: options that a resumed run had with other values.
  void header(const std::vector<std::string>& lines, const std::vector<Change>& changes);

  struct Step {
    double lr = 0, loss = 0, norm = 0;
    std::vector<std::pair<std::string, double>> metrics = {};  // see Objective
    double loss_z = 0, norm_z = 0;                             // of skip_outliers
    bool skipped = false;
    std::int64_t tokens = 0;
    StepTimes times = {};
    std::vector<LayerMeans> layers = {};  // where --layer-stats looks
  };
  // Reports step number progress.iteration, and prints every log_interval-th, with the mean time of
  // the steps since the last line, and each that was skipped.
  void step(const Step& step);
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
  std::int64_t iteration() const { return progress_.iteration; }
  void stopped();

 private:
  void print_step(const Step& step);
  void draw_progress(double loss);
  void draw_chart();
  void leave_chart();

  RunFolder& folder_;
  const RunHeader& about_;
  const Progress& progress_;
  const std::int64_t all_;  // steps
  const StepInterval iter_lines_;
  const bool decays_;  // the learning rate
  const bool repeats_batch_, keeps_best_;
  Terminal terminal_;
  std::optional<Stopwatch> since_last_;  // the last step of this call
  TimeLeft time_left_;
  MachineLoad load_;
  std::optional<LossChart> chart_;  // if there is one to draw
  std::optional<double> last_loss_;
  double seconds_ = 0;  // of the steps since the last iter line
  std::int64_t steps_ = 0, tokens_ = 0;
};

}  // namespace tapegrad::run
