#pragma once

#include <chrono>
#include <string>

#include "tapegrad/nn/summary.h"
#include "tapegrad/run/memory_estimate.h"
#include "tapegrad/run/run_folder.h"

namespace tapegrad::apps {

// What an evaluation finds.
struct Losses {
  double train = 0, val = 0;
  // Shares of the validation part from 0 to 1, by the names that they have in metrics.jsonl.
  std::vector<std::pair<std::string, double>> val_shares = {};
};

using nn::grouped;

// A word as a shell takes it.
std::string quoted(const std::string& word);

// What a training program says on stdout and in metrics.jsonl: on a terminal with a line of
// progress below, otherwise plain lines only.
class Report {
 public:
  // The program's own name, and the program that uses the model, with some arguments.
  struct Programs {
    std::string train, use, use_arguments;
  };
  Report(RunFolder& folder, const RunOptions& options, const Progress& progress, Programs programs);
  ~Report() { clear_progress(); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // What is to be trained.
  struct About {
    std::string model, text, step;  // a step: "768 tokens"
    MemoryEstimate memory;
    Product product;  // the largest of a block
  };
  void header(const About& about);

  // One step: made now, and timed from here until it is reported.
  struct Step {
    explicit Step(double rate) : lr(rate) {}
    double lr, loss = 0, norm = 0;
    int64_t tokens = 0;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  // Step number progress.iteration is done; every log_interval-th is printed, with the mean time of
  // those since the last one. Returns the seconds that it took.
  double step(const Step& step);
  // Something silent begins: said on a terminal, until the next line.
  void working(const std::string& what);
  void evaluation(const Losses& losses);
  // A line, and its numbers for metrics.jsonl.
  void result(const std::string& text, const Json& numbers);
  // Where the run is, and the commands to go on with.
  void next_steps();
  void stopped();

  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void draw_progress(double loss);
  void show_below(const std::string& text);
  void clear_progress();

  RunFolder& folder_;
  const RunOptions& options_;
  const Progress& progress_;
  const Programs programs_;
  const bool terminal_;
  bool drawn_ = false;
  Clock::time_point begin_, last_drawn_;
  int64_t first_iteration_ = -1;  // of this call
  double seconds_ = 0;            // of the steps since the last iter line
  int64_t steps_ = 0, tokens_ = 0;
};

}  // namespace tapegrad::apps
