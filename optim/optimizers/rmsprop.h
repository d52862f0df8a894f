#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct RMSpropOptions {
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;  // L2: weight_decay·p is added to the gradient
  double momentum = 0;
  bool centered = false;  // divides by the standard deviation in place of the root mean square

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("rmsprop_alpha", o.alpha, "decay of the mean squared gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("rmsprop_momentum", o.momentum, "share of the last update that stays in the next one",
      {.least = 0, .most = 1, .below_most = true});
    t("rmsprop_centered", o.centered, "divide by the gradient's standard deviation");
  }
};

// RMSprop (Tieleman & Hinton, Coursera lecture 6.5, 2012; centered: Graves, arXiv 1308.0850,
// equation 38) in the order of operations of torch.optim.RMSprop. For each parameter p with
// gradient g:
//   g ← g + weight_decay·p,  v ← alpha·v + (1 − alpha)·g²,
//   with centered: a ← alpha·a + (1 − alpha)·g,  else a = 0,
//   b ← momentum·b + g/(√(v − a²) + eps),  p ← p − lr·b.
// Where rounding takes v − a² below 0, it counts as 0; PyTorch's weight would become NaN. A
// checkpoint has v as "square_avg.<name>", a as "grad_avg.<name>" and b as
// "momentum_buffer.<name>", the last two if they are used.
class RMSprop : public OptimizerState {
 public:
  RMSprop(NamedTensors parameters, const RMSpropOptions& options = {});
};

}  // namespace tapegrad::optim
