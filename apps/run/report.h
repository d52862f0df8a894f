#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/run/memory_estimate.h"
#include "tapegrad/run/product_rate.h"
#include "tapegrad/run/run_folder.h"
#include "tapegrad/run/terminal.h"

namespace tapegrad::run {

// What an evaluation finds.
struct Losses {
  double train = 0, val = 0;
  // Shares of the validation part from 0 to 1, by the names that they have in metrics.jsonl.
  std::vector<std::pair<std::string, double>> val_shares = {};
};

// A task's words for people. All of it may be empty.
struct About {
  // Lines of the header: {"model", "n_layer 4, …"}, {"text", "corpus.txt: …"}.
  std::vector<std::pair<std::string, std::string>> lines = {};
  std::string step = {};  // what a step learns: "768 tokens"
  std::optional<MemoryEstimate> memory = {};
  std::optional<Product> product = {};  // the largest of a block, for the line on bf16
  std::string resume_command = {};      // goes on after a stop
  std::string use_command = {};         // uses the model
};

// What a run says on stdout and in metrics.jsonl: on a terminal with a line of progress below,
// otherwise plain lines only.
class Report {
 public:
  // What it is given must live as long.
  Report(RunFolder& folder, const OptimizerOptions& optimizer, const EvaluationOptions& evaluation,
         const About& about, const Progress& progress);

  void header();

  // One step: made now, and timed from here until it is reported.
  struct Step {
    explicit Step(double rate) : lr(rate) {}
    double lr, loss = 0, norm = 0;
    std::int64_t tokens = 0;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  // The step after progress.iteration steps is made; every log_interval-th is printed, with the
  // mean time of those since the last one. Returns the seconds that it took.
  double step(const Step& step);
  void evaluation(const Losses& losses);
  // A line, and its numbers for metrics.jsonl.
  void result(const std::string& text, const RunFolder::Metrics& numbers);
  // Something silent begins: a terminal shows it until the next line.
  void working(const std::string& what) { terminal_.working(what); }
  void line(const std::string& text) { terminal_.line(text); }
  // Where the run is, and the commands to go on with.
  void next_steps();
  void stopped();

 private:
  using Clock = std::chrono::steady_clock;
  void print_step(const Step& step);
  void draw_progress(double loss);

  RunFolder& folder_;
  const OptimizerOptions& optimizer_;
  const EvaluationOptions& evaluation_;
  const About& about_;
  const Progress& progress_;
  Terminal terminal_;
  Clock::time_point begin_;
  std::int64_t first_iteration_ = -1;  // of this call
  double seconds_ = 0;                 // of the steps since the last iter line
  std::int64_t steps_ = 0, tokens_ = 0;
};

}  // namespace tapegrad::run
