#pragma once

#include <optional>

#include "tapegrad/data/loader.h"
#include "tapegrad/nn/gpt.h"
#include "tapegrad/run/dataset.h"
#include "tapegrad/run/report.h"

namespace tapegrad::apps {

// A batch as tensors: inputs and targets, each (B, T).
struct BatchTensors {
  Tensor inputs, targets;
};
BatchTensors tensors_of(const data::Batch& batch);

// The mean loss of eval_iters batches from each part of the text, or nothing if a signal interrupts
// it. Random windows depend on the seed alone: steps are compared on the same ones, and training
// goes on as if there had been no evaluation. Of passes, it takes the first batches of new ones: a
// shuffled one of the training part, which with --rng torch draws from `training_rng` as PyTorch's
// loaders do, and one in order of the validation part.
std::optional<Losses> estimate_losses(const nn::GPT& gpt, const Dataset& data,
                                      const TrainOptions& options, Rng& training_rng);

struct SplitLoss {
  double loss = 0;           // mean over all tokens but the first
  double perplexity = 0;     // e^loss
  double bits_per_byte = 0;  // the same loss, spread over the bytes of these tokens
};

// Over the whole validation part, in windows side by side.
std::optional<SplitLoss> validation_loss(const nn::GPT& gpt, const Dataset& data,
                                         const TrainOptions& options);

}  // namespace tapegrad::apps
