#pragma once

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/optim/local_steps.h"

namespace tapegrad::optim {

// Parts of a meeting (local_steps.h). They are compiled once, so that processes and groups that
// meet through files make the same bits.

// sum += term.
void add_to(Tensor& sum, std::int64_t at, const Tensor& term);
// Makes the mean of a sum of n terms.
void divide(Tensor& sum, std::int64_t n);
// Makes of the gradient g what is subtracted, and goes on with the momentum b.
void make_outer_step(const LocalSteps& local, Tensor& gradient, Tensor& momentum);
// to[i] = a[i] − b[i], for n elements.
void subtract(const float* a, const float* b, float* to, std::int64_t n);
// anchor −= step, and the weights are the new anchor: n elements.
void move_anchor(const float* step, float* anchor, float* weights, std::int64_t n);

}  // namespace tapegrad::optim
