#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct AdagradOptions {
  double lr_decay = 0;
  double weight_decay = 0;  // L2: weight_decay·p is added to the gradient
  double initial_accumulator_value = 0;
  double eps = 1e-10;

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("adagrad_lr_decay", o.lr_decay, "step t has the learning rate over 1 + (t − 1) times this",
      {.least = 0});
    t("adagrad_initial_value", o.initial_accumulator_value,
      "the sum of squared gradients before the first step", {.least = 0});
  }
};

// Adagrad (Duchi, Hazan & Singer, JMLR 12, 2011, section 1.1) as torch.optim.Adagrad. For each
// parameter p with gradient g at step t:
//   g ← g + weight_decay·p,  s ← s + g²,
//   p ← p − lr/(1 + (t − 1)·lr_decay) · g/(√(initial_accumulator_value + s) + eps).
// A checkpoint has s as "sum.<name>", without initial_accumulator_value, which PyTorch's s begins
// with.
class Adagrad : public OptimizerState {
 public:
  Adagrad(NamedTensors parameters, const AdagradOptions& options = {});
};

}  // namespace tapegrad::optim
