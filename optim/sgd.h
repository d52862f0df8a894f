#pragma once

#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad::optim {

struct SGDOptions {
  double momentum = 0;
  double weight_decay = 0;  // L2: decay·p is added to the gradient
};

// Gradient descent as torch.optim.SGD: b ← momentum·b + g (b = g at first), p ← p − lr·b.
class SGD {
 public:
  SGD(NamedTensors parameters, const SGDOptions& options = {});

  void step(double lr);
  void zero_grad();

 private:
  struct Slot {
    Tensor parameter, buffer;  // the buffer is undefined until there was a gradient
  };
  std::vector<Slot> slots_;
  SGDOptions options_;
};

}  // namespace tapegrad::optim
