#pragma once

#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::optim {

// The Euclidean norm of all gradients as one vector. Squares are summed in double.
double grad_norm(const NamedTensors& parameters);

// The sums of the squares of a gradient's elements, kSquareChunk at a time, in double. A norm is
// the root of their sum: first those of each gradient, in order, then those of all gradients.
std::vector<double> square_sums(const Tensor& gradient);
inline constexpr std::int64_t kSquareChunk = 16384;

// The norm of all gradients, and the factor that clips it to max_norm: max_norm / (norm + 1e-6),
// but at most 1, as in torch.nn.utils.clip_grad_norm_. With max_norm = 0 the factor is 1. Changes
// no gradient. Error if the norm is not finite: a step would destroy the weights.
struct Clipping {
  double norm, factor;
};
Clipping measure_clipping(const NamedTensors& parameters, double max_norm);
// The clipping for a norm that is known.
Clipping clipping_of(double norm, double max_norm);

// Clips: multiplies all gradients by that factor, and returns the norm before clipping. Passing the
// factor to AdamW::step instead saves one pass over the gradients.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

// Sets each element of the gradients that is above clip_value to it, and each one below −clip_value
// to that, as torch.nn.utils.clip_grad_value_. NaN stays NaN. Error if clip_value is below 0 or
// not a number.
void clip_grad_value(const NamedTensors& parameters, double clip_value);

}  // namespace tapegrad::optim
