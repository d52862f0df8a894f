#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/run/record/losses.h"
#include "tapegrad/run/train/batches.h"
#include "tapegrad/run/train/evaluation/compare_models.h"

namespace tapegrad::run {

// A batch as tensors: inputs, with their documents, and targets (B, T).
struct BatchTensors {
  nn::TokenRows inputs;
  Tensor targets;
};
BatchTensors tensors_of(const data::Batch& batch);

// The mean loss of `batches` batches from each part of the text, or nothing if a signal interrupts
// it.
//   Random windows depend on the seed alone. So all evaluations see the same windows, and training
//   continues as if there had been no evaluation.
//   With epochs, each part of the text begins a new one, of which the first batches count: the
//   training part in shuffled order, the validation part in its own order. If there is one
//   generator for everything, the shuffling draws from `training_rng`, as PyTorch's loaders do.
//   Of conversations, each part begins a new epoch in the same way; the mean is over the targets
//   that count.
//   Several processes share the batches, and all get the result.
std::optional<Losses> estimate_losses(const nn::Decoder& gpt, const TextData& data,
                                      const BatchPlan& plan, std::int64_t batches,
                                      const RandomOptions& random, Rng& training_rng,
                                      Processes* processes = nullptr);

// How many batches that takes, of both parts together.
std::int64_t evaluation_batches(const TextData& data, const BatchPlan& plan, std::int64_t batches);

// How much of a text a loss is taken over. Less than all is spread evenly over the text.
struct EvaluationLimit {
  std::optional<std::int64_t> batches = {};  // one at least; nothing: all
};

// The limit that a user names: "all"; a number of batches; "none", which is nothing; or "auto",
// `automatic` batches. Error for any other text.
std::optional<EvaluationLimit> evaluation_limit(const std::string& text, std::int64_t automatic);

// The batches of "auto" after a training of `trained` batches: a fifth as many, which takes a tenth
// of the training's time or less, since training goes backward, too. At least as many as 10¹¹
// floating-point operations are enough for, a second or two, if a batch needs `flops` of them. They
// are counted, since a run that is resumed must see as much of the text as one that was not
// stopped.
std::int64_t automatic_batches(double trained, double flops);

struct TextLoss {
  double loss = 0;           // mean over the tokens that were predicted
  double perplexity = 0;     // e^loss
  double bits_per_byte = 0;  // the sum of the loss in bits / bytes of the tokens' text
  std::int64_t tokens = 0;   // that were predicted
  double share = 0;          // of the batches; 1: all
  std::vector<Comparison> comparisons = {};  // one for each of WindowOptions::compared
};

struct WindowOptions {
  std::int64_t batch_size, block_size;
  std::optional<std::int64_t> stride = {};  // see SequentialBatches
  EvaluationLimit limit = {};
  std::vector<const nn::Decoder*> compared = {};  // models to compare with: see Comparing
  CacheType cache = CacheType::f32;               // how keys and values are stored: see hidden_of()
  // After each batch: the share that is done, and the seconds that are left.
  std::function<void(double share, double seconds_left)> on_progress = {};
};

// Over `tokens`, in the windows of SequentialBatches. Of what it has seen if a signal interrupts
// it, or nothing if that is nothing.
std::optional<TextLoss> loss_of_tokens(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                                       const data::TokenSource& tokens,
                                       const WindowOptions& options);

// Over the answers of conversations, packed in their order, without a stride. `tokens` are the
// targets that count.
std::optional<TextLoss> loss_of_conversations(const nn::Decoder& gpt,
                                              const data::Tokenizer& tokenizer,
                                              std::shared_ptr<const data::ChatSet> set,
                                              data::ChatLoss loss, const WindowOptions& options);

}  // namespace tapegrad::run
