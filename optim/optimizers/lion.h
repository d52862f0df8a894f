#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled, of all tensors

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("lion_beta1", o.beta1, "share of the mean gradient in an update",
      {.least = 0, .most = 1, .below_most = true});
    t("lion_beta2", o.beta2, "decay of the mean gradient",
      {.least = 0, .most = 1, .below_most = true});
  }
};

// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", arXiv 2302.06675, algorithm
// 2), with the decay first, as the authors' programs have it. For each parameter p with gradient g:
//   p ← p·(1 − lr·weight_decay),  p ← p − lr·sign(β₁·m + (1 − β₁)·g),  m ← β₂·m + (1 − β₂)·g.
// Each weight moves by lr, so lr is a third to a tenth of AdamW's, and weight_decay three to ten
// times as large (section 5 there). A checkpoint has m as "exp_avg.<name>".
class Lion : public OptimizerState {
 public:
  Lion(NamedTensors parameters, const LionOptions& options = {});
};

}  // namespace tapegrad::optim
