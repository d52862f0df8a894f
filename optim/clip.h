#pragma once

#include "autograd/safetensors.h"

namespace tapegrad::optim {

// The Euclidean norm of all gradients taken as one vector; squares are summed in double.
double grad_norm(const NamedTensors& parameters);

// Scales all gradients by max_norm / (norm + 1e-6) if their norm is above max_norm, as
// torch.nn.utils.clip_grad_norm_, and returns the norm from before. max_norm 0 only measures. Error
// if the norm is not finite: the step would destroy the weights.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

}  // namespace tapegrad::optim
