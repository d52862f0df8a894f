#pragma once

#include <functional>
#include <optional>

#include "tapegrad/run/report.h"

namespace tapegrad::apps {

struct BatchLoss {
  Tensor loss;
  int64_t tokens;
};

// A run of training, and what differs between programs in it.
struct Training {
  const RunOptions& options;
  RunFolder& folder;
  Report& report;
  const TrainState& state;
  // The loss of the next batch, recorded by a tape that lives around the call.
  std::function<BatchLoss()> next_loss;
  // Nothing if a signal interrupts it.
  std::function<std::optional<Losses>()> evaluate;
  // After each step that is made here, and its evaluation if there is one.
  std::function<void()> after_step = [] {};
};

// Loss → backward → clip → AdamW, with an evaluation and a checkpoint now and then, until
// options.max_iters steps are made (true), or a signal has stopped the run, which is then saved and
// reported. Error, keeping the last checkpoint, once an evaluation's loss is not a number.
bool run_training(const Training& training);

}  // namespace tapegrad::apps
