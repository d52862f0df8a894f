#pragma once

#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad::optim {

// The Euclidean norm of all gradients taken as one vector; squares are summed in double.
double grad_norm(const NamedTensors& parameters);

// What clipping to max_norm would do: multiply all gradients by `factor`, which is
// max_norm / (norm + 1e-6) if that is below 1, as in torch.nn.utils.clip_grad_norm_, and otherwise
// 1. max_norm 0 only measures. Error if the norm is not finite: the step would destroy the weights.
struct Clipping {
  double norm, factor;
};
Clipping measure_clipping(const NamedTensors& parameters, double max_norm);

// Does it, and returns the norm from before. An optimiser that takes the factor saves the pass over
// memory.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

}  // namespace tapegrad::optim
