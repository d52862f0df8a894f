#pragma once

#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Along dim, of factors xₖ + t₁·v₁ₖ + … + tᵣ·vᵣₖ: of the products of the factors 0 to j, the
// coefficients of t₁·…·tᵣ. Without directions v, these are the products of x.
Tensor products_along(const Tensor& x, const std::vector<Tensor>& directions, int dim);
// The gradient of Σ dyⱼ·products_along(x, directions)ⱼ by x.
Tensor products_backward(const Tensor& dy, const Tensor& x, const std::vector<Tensor>& directions,
                         int dim);

}  // namespace tapegrad
