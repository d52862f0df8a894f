#pragma once

#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Applied to tensors of two or more dimensions only, as nanoGPT does: not to biases and norms.
  double weight_decay = 0.01;
  bool decay_all = false;  // to all tensors, as PyTorch does when it is given one group
};

// Adam with decoupled weight decay (Loshchilov & Hutter, 2019, algorithm 2), in PyTorch's order of
// operations. For each parameter p with gradient g at step t:
//   p ← p·(1 − lr·decay),  m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,
//   p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + eps).
// t counts the calls of step(), for all parameters alike; PyTorch counts, for each, the steps at
// which it had a gradient.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const AdamWOptions& options = {});

  // One update with learning rate lr and all gradients times grad_factor (see measure_clipping).
  // Parameters without a gradient are left alone.
  void step(double lr, double grad_factor = 1);
  void zero_grad();
  std::int64_t steps() const { return steps_; }

  // The moments, as "exp_avg.<name>" and "exp_avg_sq.<name>", and the step count, for a checkpoint.
  NamedTensors state() const;
  Metadata metadata() const;
  // Error, naming file and tensor, if the state does not belong to these parameters.
  void load_state(const SafeTensors& file);

 private:
  struct Slot {
    std::string name;
    Tensor parameter, exp_avg, exp_avg_sq;
  };
  std::vector<Slot> slots_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace tapegrad::optim
