#pragma once

// Ops on images and other signals in planes: x is (N, C, H, W), or (C, H, W) for one image. As in
// ops.h, they work in f32 and f64, and an Error names the op, the rule and the shapes.

#include <cstdint>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// A number for each of the two dimensions; one stands for both: {.stride = 2, .padding = {1, 3}}.
struct Size2d {
  std::int64_t h = 0, w = 0;
  constexpr Size2d() = default;
  constexpr Size2d(std::int64_t both) : h(both), w(both) {}
  constexpr Size2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}
};

struct Conv2dOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};
// y[n, o, r, t] = bias[o] + Σ weight[o, c, i, j]·x[n, c, r·stride.h + i·dilation.h − padding.h,
// t·stride.w + j·dilation.w − padding.w], x being 0 outside of itself: a cross-correlation, as in
// PyTorch.  x (N, C, H, W), weight (C_out, C / groups, K_h, K_w), bias (C_out) or undefined →
// (N, C_out, H_out, W_out), with H_out = (H + 2·padding − dilation·(K_h − 1) − 1) / stride + 1.
// Group g of the outputs sees group g of the channels. Error if C or C_out is no multiple of
// groups, or the kernel reaches over more than H + 2·padding.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2d stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
};
// The gradient of conv2d's x as an op of its own: x (N, C, H, W) stands for conv2d's output, and
// weight (C, C_out / groups, K_h, K_w) for its weight → (N, C_out, H_out, W_out), with H_out =
// (H − 1)·stride − 2·padding + dilation·(K_h − 1) + output_padding + 1. bias (C_out) or undefined.
// Of the sizes that conv2d would shrink to H, output_padding chooses. Error unless it is below
// stride or dilation.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

}  // namespace tapegrad
