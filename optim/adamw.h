#pragma once

#include <functional>

#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Applies to tensors of two or more dimensions only, as in nanoGPT: not to biases and norms.
  double weight_decay = 0.01;
  bool decay_all = false;  // decay applies to all tensors, as in PyTorch with one parameter group
};

// Adam with decoupled weight decay (Loshchilov & Hutter, 2019, algorithm 2), in PyTorch's order of
// operations. For each parameter p with gradient g at step t:
//   p ← p·(1 − lr·decay),  m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,
//   p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + eps).
// t is the number of calls of step(), for all parameters. PyTorch differs there: its t counts, for
// each parameter, the steps at which that parameter had a gradient.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const AdamWOptions& options = {});

  // Updates all parameters that have a gradient, with learning rate lr. All gradients are
  // multiplied by grad_factor first (see measure_clipping). Error if no parameter has a gradient:
  // backward() was forgotten, or reached none of them.
  void step(double lr, double grad_factor = 1);
  // The same without that error, for an object that has a part of the parameters only: others may
  // have the gradients. Calls updated(i) after parameter i.
  void step_part(double lr, double grad_factor, const std::function<void(std::size_t)>& updated);
  void zero_grad();
  std::int64_t steps() const { return steps_; }

  // For a checkpoint: the moments as "exp_avg.<name>" and "exp_avg_sq.<name>", and the number of
  // steps as metadata.
  NamedTensors state() const;
  Metadata metadata() const;
  // Error, naming file and tensor, if a moment is missing or does not have its parameter's shape
  // and dtype; then nothing is changed.
  void load_state(const TensorSource& file);
  // The part of that error that a tensor's entry in the file decides.
  static void check_entry(const TensorSource& file, const std::string& name, const Tensor& like);

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
