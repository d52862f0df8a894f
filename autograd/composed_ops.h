#pragma once

// Activations and distances made of the ops of ops.h, with PyTorch's names, defaults and
// conventions where a derivative does not exist.

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// x where x > 0, else slope·x; the derivative at 0 is the slope.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// x where x > 0, else alpha·(eˣ − 1) (Clevert et al., "Fast and Accurate Deep Network Learning by
// Exponential Linear Units", 2015).
Tensor elu(const Tensor& x, double alpha = 1);
// x·tanh(softplus(x)) (Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019).
Tensor mish(const Tensor& x);
// 0 for x <= −3, x for x >= 3, else x·(x + 3)/6 (Howard et al., "Searching for MobileNetV3", 2019,
// section 5.2). The derivative is 0 at −3 and 1 at 3.
Tensor hardswish(const Tensor& x);

// x / max(‖x‖, eps), with the norms of order p along dim.
Tensor normalize(const Tensor& x, double p = 2, int dim = 1, double eps = 1e-12);
// Σ(a/max(‖a‖, eps))·(b/max(‖b‖, eps)) along dim, which is removed; a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);
// norm(a − b + eps, p) along the last dimension; a and b broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keepdim = false);

}  // namespace tapegrad
