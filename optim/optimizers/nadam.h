#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct NAdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;  // how fast the momentum rises from about beta1/2 to beta1
  // p ← p·(1 − lr·weight_decay), as AdamW; else weight_decay·p is added to the gradient (L2).
  bool decoupled_weight_decay = false;

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("nadam_beta1", o.beta1, "decay of the mean gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("nadam_beta2", o.beta2, "decay of the mean squared gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("nadam_momentum_decay", o.momentum_decay, "how fast the momentum rises to beta1",
      {.least = 0});
    t("nadam_decoupled_weight_decay", o.decoupled_weight_decay,
      "keep the decay apart from the gradient, as AdamW");
  }
};

// Adam with Nesterov's momentum (Dozat, "Incorporating Nesterov Momentum into Adam", 2016) in the
// order of operations of torch.optim.NAdam. For each parameter p with gradient g at step t:
//   g ← g + weight_decay·p,  or  p ← p·(1 − lr·weight_decay) if decoupled,
//   m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,  d = √(v/(1 − β₂ᵗ)) + eps,
//   p ← p − lr·(1 − μₜ)/(1 − μ₁⋯μₜ) · g/d − lr·μₜ₊₁/(1 − μ₁⋯μₜ₊₁) · m/d,
// where μₜ = β₁·(1 − 0.96^(t·momentum_decay)/2). A checkpoint has m as "exp_avg.<name>" and v as
// "exp_avg_sq.<name>". PyTorch's "mu_product" follows from t, and has the precision of the
// parameters here, and of PyTorch's default dtype there.
class NAdam : public OptimizerState {
 public:
  NAdam(NamedTensors parameters, const NAdamOptions& options = {});
};

}  // namespace tapegrad::optim
