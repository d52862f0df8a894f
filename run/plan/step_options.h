#pragma once

#include <functional>
#include <optional>

#include "tapegrad/base/random.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/ema.h"
#include "tapegrad/optim/parameter_groups.h"
#include "tapegrad/run/options/tuning.h"

namespace tapegrad::run {

// What a decoder's step in training takes, beside the model and the batch: for those that estimate
// its memory or measure its time without a text to learn.
struct StepOptions {
  bool recompute = false;  // see nn::Decoder
  Precision precision = Precision::full;
  Rng::Kind dropout = Rng::Kind::philox;           // masks of Kind::torch are stored
  TuningOptions tuning = {};                       // frozen weights have no gradient
  optim::GroupRules optimizer = {};                // which say what is kept for what is trained
  std::optional<optim::EMAOptions> averages = {};  // of what is trained
  // Makes the parameters of a model that exists, as those of a run with tuning.weights. In a dry
  // run, it reads none of them. Without it, they are shapes, or drawn.
  std::function<nn::Params()> params = {};
  // The loss of a batch (B, T); without it, that of a text. `second` is a model that runs beside
  // and is not trained, as a reference or a teacher; null if there is none, and where whoever asks
  // makes it by itself, as for a measured step.
  std::function<Tensor(const nn::Decoder&, const nn::Decoder* second, const nn::TokenRows&,
                       const Tensor& targets, Rng* dropout)>
      loss = {};
};

}  // namespace tapegrad::run
