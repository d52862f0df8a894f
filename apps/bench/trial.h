#pragma once

#include <optional>

#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/run/plan/step_options.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::bench {

// Tokens of the documents that stand side by side in a sequence, drawn from [least, most].
struct DocumentLengths {
  std::int64_t least, most;
};

// A GPT in training on random tokens: what a step costs, without a text to learn.
class Trial {
 public:
  // Batches of B sequences of T tokens; a sequence is one document, unless `documents` says how
  // long those are that stand side by side in it.
  Trial(const nn::DecoderConfig& config, int64_t B, int64_t T, const run::StepOptions& options = {},
        std::optional<DocumentLengths> documents = {});

  Trial(const Trial&) = delete;  // its task refers to it
  Trial& operator=(const Trial&) = delete;

  struct Phases : run::StepTimes {
    // When backward has completed the gradient of each parameter, in the order of parameters().
    std::vector<double> completed = {};
  };
  Phases step();
  // From now on, batches of B sequences of T tokens.
  void set_batch(int64_t B, int64_t T);
  NamedTensors parameters() const { return params_.parameters(); }
  const optim::ParameterGroups& groups() const { return sync_->groups(); }

 private:
  nn::Decoder make_gpt(const nn::DecoderConfig& config, const run::StepOptions& options);
  Tensor tokens(int64_t B, int64_t T);
  nn::TokenRows rows(int64_t B, int64_t T);

  Rng rng_{1337}, dropout_;
  std::optional<DocumentLengths> documents_;
  nn::Params params_;
  nn::Decoder gpt_;
  nn::TokenRows inputs_;
  Tensor targets_;
  run::Task task_;
  std::unique_ptr<optim::GradientSync> sync_;
};

}  // namespace tapegrad::bench
