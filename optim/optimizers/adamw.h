#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Applies to tensors of two or more dimensions only, as in nanoGPT: not to biases and norms.
  double weight_decay = 0.01;
  bool decay_all = false;  // decay applies to all tensors, as in PyTorch with one parameter group
  bool amsgrad = false;    // divides by the root of the largest v so far

  // A run has weight_decay and decay_all for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("beta1", o.beta1, "decay of the mean gradient", {.least = 0, .most = 1, .below_most = true});
    t("beta2", o.beta2, "decay of the mean squared gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("amsgrad", o.amsgrad, "divide by the largest mean squared gradient so far");
  }
};

// Adam with decoupled weight decay (Loshchilov & Hutter, 2019, algorithm 2), in PyTorch's order of
// operations. For each parameter p with gradient g at step t:
//   p ← p·(1 − lr·decay),  m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,
//   p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + eps).
// t is the number of calls of step(), for all parameters. With amsgrad (Reddi, Kale & Kumar, "On
// the Convergence of Adam and Beyond", 2018, algorithm 2), the largest v so far stands under the
// root, element by element. A checkpoint has m as "exp_avg.<name>", v as "exp_avg_sq.<name>" and
// the largest v as "max_exp_avg_sq.<name>".
class AdamW : public OptimizerState {
 public:
  AdamW(NamedTensors parameters, const AdamWOptions& options = {});
};

}  // namespace tapegrad::optim
