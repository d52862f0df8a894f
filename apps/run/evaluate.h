#pragma once

#include <optional>

#include "tapegrad/nn/gpt.h"
#include "tapegrad/run/batches.h"
#include "tapegrad/run/report.h"

namespace tapegrad::run {

// A batch as tensors: inputs and targets, each (B, T).
struct BatchTensors {
  Tensor inputs, targets;
};
BatchTensors tensors_of(const data::Batch& batch);

// The mean loss of `batches` batches from each part of the text, or nothing if a signal interrupts
// it.
//   Random windows depend on the seed alone. So all evaluations see the same windows, and training
//   continues as if there had been no evaluation.
//   With passes, each part of the text gets a new pass, of which the first batches count: the
//   training part in shuffled order, the validation part in its own order. If there is one
//   generator for everything, the shuffling draws from `training_rng`, as PyTorch's loaders do.
std::optional<Losses> estimate_losses(const nn::GPT& gpt, const TextData& data,
                                      const BatchPlan& plan, std::int64_t batches,
                                      const RandomOptions& random, Rng& training_rng);

// How many batches that takes, of both parts together.
std::int64_t evaluation_batches(const TextData& data, const BatchPlan& plan, std::int64_t batches);

struct SplitLoss {
  double loss = 0;           // mean over all tokens but the first
  double perplexity = 0;     // e^loss
  double bits_per_byte = 0;  // the sum of the loss in bits / bytes of the tokens' text
};

// Over all `tokens`, in windows side by side; nothing if a signal interrupts it.
std::optional<SplitLoss> loss_of_tokens(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                                        const std::vector<data::Token>& tokens,
                                        std::int64_t batch_size, std::int64_t block_size);

}  // namespace tapegrad::run
