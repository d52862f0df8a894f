#pragma once

#include "tapegrad/autograd/image_ops.h"

namespace tapegrad {

// The sizes of a convolution in two dimensions.
struct ConvGeometry {
  std::int64_t batch = 0, channels = 0, out = 0, groups = 1;
  Size2d size, taps, out_size, stride, padding, dilation;

  Shape x_shape() const { return {batch, channels, size.h, size.w}; }
  Shape weight_shape() const { return {out, channels / groups, taps.h, taps.w}; }
  Shape y_shape() const { return {batch, out, out_size.h, out_size.w}; }
  std::int64_t places() const { return out_size.h * out_size.w; }
  // The elements of x that one element of y is made of.
  std::int64_t depth() const { return channels / groups * taps.h * taps.w; }
};

// The convolution and its two gradients. bias may be undefined. Products are made by gemm from
// columns, some places of the output at a time. Where each group has one channel, there is nothing
// to multiply matrices for: a row of x is added to a row of y, tap by tap.
Tensor conv2d_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias);
Tensor conv2d_input_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_weight_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& x);

}  // namespace tapegrad
