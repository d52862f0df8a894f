#pragma once

#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad::optim {

struct SGDOptions {
  double momentum = 0;
  double weight_decay = 0;  // L2: weight_decay·p is added to the gradient
  bool nesterov = false;    // looks one step of the momentum ahead; needs momentum
};

// Gradient descent with momentum, as torch.optim.SGD. For each parameter p with gradient g:
//   g ← g + weight_decay·p,  b ← momentum·b + g (b is 0 before the first step),  p ← p − lr·b,
// or, with nesterov, p ← p − lr·(g + momentum·b).
class SGD {
 public:
  SGD(NamedTensors parameters, const SGDOptions& options = {});

  // Updates all parameters that have a gradient. Error if none has: see AdamW::step.
  void step(double lr);
  void zero_grad();

 private:
  struct Slot {
    Tensor parameter, buffer;  // the buffer (b) is undefined before the first gradient
  };
  std::vector<Slot> slots_;
  SGDOptions options_;
};

}  // namespace tapegrad::optim
