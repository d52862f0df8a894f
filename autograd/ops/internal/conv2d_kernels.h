#pragma once

#include "tapegrad/autograd/ops/internal/conv_geometry.h"

namespace tapegrad {

// The convolution and its two gradients. bias may be undefined. Products are made by gemm from
// columns, some places of the output at a time. Where each group has one channel, there is nothing
// to multiply matrices for: a row of x is added to a row of y, tap by tap.
Tensor conv2d_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias);
Tensor conv2d_input_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_weight_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& x);

}  // namespace tapegrad
