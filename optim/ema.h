#pragma once

#include <cstdint>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::optim {

struct EMAOptions {
  double decay = 0.999;
  // The mean of the weights of all updates from `start` on, whatever the decay: stochastic weight
  // averaging (Izmailov et al., "Averaging Weights Leads to Wider Optima and Better
  // Generalization", arXiv 1803.05407), get_swa_multi_avg_fn in PyTorch.
  bool mean = false;
  // The update that begins the averages, counted from 1: up to it, they are the weights themselves.
  std::int64_t start = 1;
};

// An exponential moving average of weights, as torch.optim.swa_utils.AveragedModel with
// get_ema_multi_avg_fn computes it: updates up to `start` copy the weights, each later one does
// average ← decay·average + (1 − decay)·weight; with `mean`, the nth one, counted from `start`,
// counts 1/n. The averages have the weights' dtype. Without updates, they are the weights that
// there were at the beginning.
//
//   optim::EMA ema(params.parameters());
//   … optimizer.step(lr), ema.update();   // in each iteration
//   ema.swap();                           // the model has the averages now
//   … evaluate …
//   ema.swap();                           // and its own weights again
class EMA {
 public:
  EMA(NamedTensors parameters, const EMAOptions& options = {});

  void update();              // after each step of the optimiser
  void swap();                // exchanges the values of weights and averages
  void copy_to_parameters();  // sets the weights to the averages
  std::int64_t updates() const { return updates_; }
  const NamedTensors& averages() const { return averages_; }  // by the parameters' names

  // For a checkpoint: the averages as "ema.<name>", and the number of updates as metadata.
  NamedTensors state() const;
  Metadata metadata() const;
  // Error, naming file and tensor, if one is missing or does not have its shape and dtype; then
  // nothing is changed.
  void load_state(const TensorSource& file);

 private:
  NamedTensors parameters_, averages_;
  EMAOptions options_;
  std::int64_t updates_ = 0;
};

}  // namespace tapegrad::optim
