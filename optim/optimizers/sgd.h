#pragma once

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct SGDOptions {
  double momentum = 0;
  double weight_decay = 0;  // L2: weight_decay·p is added to the gradient
  bool nesterov = false;    // looks one step of the momentum ahead; needs momentum

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("momentum", o.momentum, "share of the last update that stays in the next one",
      {.least = 0, .most = 1, .below_most = true});
    t("nesterov", o.nesterov, "look one step of the momentum ahead (Nesterov)");
  }
};

// Gradient descent with momentum, as torch.optim.SGD with dampening 0 (Sutskever, Martens, Dahl,
// Hinton: On the importance of initialization and momentum in deep learning, 2013, section 2). For
// each parameter p with gradient g:
//   g ← g + weight_decay·p,  b ← momentum·b + g (b is 0 before the first step),  p ← p − lr·b,
// or, with nesterov, p ← p − lr·(g + momentum·b). A checkpoint has b as "momentum_buffer.<name>";
// without momentum nothing is kept.
class SGD : public OptimizerState {
 public:
  SGD(NamedTensors parameters, const SGDOptions& options = {});
};

}  // namespace tapegrad::optim
