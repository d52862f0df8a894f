#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// An op whose forward and backward are each computed in one pass, said once.
struct FusedOp {
  struct Output {
    Tensor y;
    // Tensors for the backward beside dy and x…, so that it need not compute it again:
    // log-sum-exps, or means and variances. May hold undefined tensors.
    std::vector<Tensor> notes;
  };

  std::string_view name, backward_name;
  // needs[i] is true if the gradient of x[i] will be wanted.
  std::function<Output(Inputs x, const Needs& needs)> forward;
  // The gradients of x…; those that `needs` does not ask for may be undefined.
  std::function<Grads(const Tensor& dy, Inputs x, Inputs notes, const Needs& needs)> backward;
  // The same function as forward, written with primitive ops: derivatives of the second and higher
  // orders go through it.
  std::function<Tensor(Inputs x)> reference;
  bool cheap = false;  // see OpOptions
  OnnxRow onnx = {};   // without one, the reference is written
};

// Runs and records a fused op. It keeps x… and the notes. Its backward is an op as well.
Tensor apply_fused(const std::vector<Tensor>& x, FusedOp op);

}  // namespace tapegrad
