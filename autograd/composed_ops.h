#pragma once

// Activations and losses made of the ops of ops.h, with PyTorch's names, defaults and conventions
// where a derivative does not exist.

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// x where x > 0, else slope·x; the derivative at 0 is the slope.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// x where x > 0, else alpha·(eˣ − 1) (Clevert et al., "Fast and Accurate Deep Network Learning by
// Exponential Linear Units", 2015).
Tensor elu(const Tensor& x, double alpha = 1);
// x·tanh(softplus(x)) (Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019).
Tensor mish(const Tensor& x);

// Losses of x and target of one shape; the derivative where they are equal is 0. Error for
// Reduction::batchmean.

// |x − target|.
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
// With d = |x − target|: d²/(2·beta) where d < beta, else d − beta/2. Error unless beta > 0.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::mean);
// beta·smooth_l1_loss: d²/2 where d < delta, else delta·(d − delta/2) (Huber, "Robust Estimation of
// a Location Parameter", 1964). Error unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  Reduction reduction = Reduction::mean);

}  // namespace tapegrad
