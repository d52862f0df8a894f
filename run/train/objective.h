#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/run/record/losses.h"

namespace tapegrad::run {

// The loss of one batch: a scalar that a tape records, and how many tokens (or other units) the
// batch has, for the rate that iter lines tell; and metrics beside it.
struct Loss {
  Loss(Tensor loss, std::int64_t count = 0)  // NOLINT: a Tensor is one
      : value(std::move(loss)), tokens(count) {}
  Tensor value;
  std::int64_t tokens;
  std::array<double, kMostMetrics> metrics = {};  // see Objective
};

// What a task learns, as the loop sees it: the loss of a batch, and an evaluation.
class Objective {
 public:
  virtual ~Objective() = default;

  // The loss of the next batch. A tape that lives around the call records it.
  virtual Loss loss() = 0;
  // Passes over a batch of another process: draws the random numbers that loss() would draw. Unless
  // it is overridden, it calls loss() in a DryRun.
  virtual void skip_batch();
  // How many targets of each of the next batches count, where that differs: a step's loss is then
  // the mean over all of its targets that count, whichever batch they are in. Empty: batches count
  // the same.
  virtual std::vector<std::int64_t> counted(std::int64_t batches) const;
  // The names of metrics beside the loss in iter lines and metrics.jsonl, such as "reward_margin":
  // means over a batch, as the loss is.
  virtual std::vector<std::string> metrics() const;
  // For what a model learns without gradients: numbers that loss() has counted since they were last
  // asked for, as many in each process, and after each step their sums over all processes. Not
  // `updated`: the step is skipped, or has a learning rate of 0, and nothing must change.
  virtual std::vector<std::int64_t> take_counts();
  virtual void end_step(std::span<const std::int64_t> counts, bool updated);
  // Returns nothing if a signal interrupts it. It may draw from the generator of the batches.
  virtual std::optional<Losses> evaluate() = 0;
};

// An objective of two functions: loss() and evaluate().
std::shared_ptr<Objective> objective_of(std::function<Loss()> loss,
                                        std::function<std::optional<Losses>()> evaluate);

}  // namespace tapegrad::run
