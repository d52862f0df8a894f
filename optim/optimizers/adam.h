#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // L2: weight_decay·p is added to the gradient
  bool amsgrad = false;     // divides by the root of the largest v so far

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("adam_beta1", o.beta1, "decay of the mean gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("adam_beta2", o.beta2, "decay of the mean squared gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("adam_amsgrad", o.amsgrad, "divide by the largest mean squared gradient so far");
  }
};

// Adam (Kingma & Ba, 2015, algorithm 1) in the order of operations of torch.optim.Adam. For each
// parameter p with gradient g at step t:
//   g ← g + weight_decay·p,  m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,
//   p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + eps).
// AdamW differs in the decay alone, which it keeps apart from the gradient: prefer it where there
// is decay. With amsgrad (Reddi, Kale & Kumar, "On the Convergence of Adam and Beyond", 2018,
// algorithm 2), the largest v so far stands under the root, element by element. A checkpoint has m
// as "exp_avg.<name>", v as "exp_avg_sq.<name>" and the largest v as "max_exp_avg_sq.<name>".
class Adam : public OptimizerState {
 public:
  Adam(NamedTensors parameters, const AdamOptions& options = {});
};

}  // namespace tapegrad::optim
