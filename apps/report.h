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

  void header(const nn::Params& params, const nn::GPTConfig& config, const Dataset& data);

  struct Step {
    double loss, lr, norm, seconds;
  };
  // Step progress.iteration was made; every log_interval-th is printed, with the mean time since.
  void step(const Step& step);
  void evaluation(const Losses& losses);
  void final(const SplitLoss& loss);
  // Where the run is, and the commands to go on with.
  void next_steps();
  void stopped();

  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void draw_progress(double loss);
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
