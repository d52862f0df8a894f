#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

namespace tapegrad::run {

// An objective with its models, its batches and its generators, as the loop trains them.
class DecoderTraining final : public Objective {
 public:
  // All that is referred to must live as long as this.
  struct Parts {
    const DecoderObjective& objective;
    DecoderModels models;
    const TextData& data;
    BatchPlan plan;
    RandomOptions random;
    std::int64_t eval_iters;
    Batches& batches;
    Rng& own_dropout;  // unless there is one generator for everything
    Processes* processes = nullptr;
  };
  explicit DecoderTraining(const Parts& parts);

  Loss loss() override;
  void skip_batch() override;
  std::vector<std::int64_t> counted(std::int64_t batches) const override;
  std::vector<std::string> metrics() const override;
  // Of tokens of each expert, block by block, if biases choose among them.
  std::vector<std::int64_t> take_counts() override;
  void end_step(std::span<const std::int64_t> counts, bool updated) override;
  std::optional<Losses> evaluate() override;
  // Of so many batches of each part, with another generator, by this process alone.
  std::optional<Losses> evaluate(std::int64_t batches, Rng& rng) const;
  std::optional<FinalLoss> evaluate_all(const WindowOptions& windows) const;

 private:
  Rng& dropout();
  void count(const nn::RouterLosses& routers);

  const Parts parts_;
  std::vector<const nn::Experts*> balanced_;  // null: a block's experts that have no bias to move
  std::vector<std::int64_t> tokens_;          // that came to each expert of these
};

}  // namespace tapegrad::run
