#pragma once

#include <chrono>
#include <string>

#include "apps/evaluate.h"
#include "apps/run_folder.h"

namespace tapegrad::apps {

// What train-gpt says on stdout and in metrics.jsonl: on a terminal with a line of progress below,
// otherwise plain lines only.
class Report {
 public:
  Report(RunFolder& folder, const TrainOptions& options, const Progress& progress);
  ~Report() { clear_progress(); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void header(const nn::GPTConfig& config, const Text& text, const Dataset& data);

  // One step: made now, and timed from here until it is reported.
  struct Step {
    explicit Step(double rate) : lr(rate) {}
    double lr, loss = 0, norm = 0;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  // Step number progress.iteration is done; every log_interval-th is printed, with the mean time of
  // those since the last one. Returns the seconds that it took.
  double step(const Step& step);
  // Something silent begins: said on a terminal, until the next line.
  void working(const std::string& what);
  void evaluation(const Losses& losses);
  void final(const SplitLoss& loss);
  void sample(const nn::GPT& gpt, const data::Tokenizer& tokenizer);
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
  const TrainOptions& options_;
  const Progress& progress_;
  const bool terminal_;
  bool drawn_ = false;
  Clock::time_point begin_, last_drawn_;
  int64_t first_iteration_ = -1;  // of this call
  double seconds_ = 0;            // of the steps since the last iter line
  int64_t steps_ = 0;
};

}  // namespace tapegrad::apps
