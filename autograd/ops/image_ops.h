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

// The same for signals: x (N, C, L) or (C, L), weight (C, C_out / groups, K).
struct ConvTranspose1dOptions {
  std::int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
};
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});

// --- Pooling: each channel by itself. A stride of 0 stands for the kernel. ---

struct MaxPool2dOptions {
  Size2d stride = 0, padding = 0, dilation = 1;
};
// The largest element of each window of K_h × K_w; padding does not count. The first of equal
// elements gets the gradient; NaN counts as largest.  (N, C, H, W) → (N, C, H_out, W_out), H_out as
// for conv2d. Error if the padding is more than half of the kernel.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});
struct AvgPool2dOptions {
  Size2d stride = 0, padding = 0;
  bool count_include_pad = true;  // the divisor counts padding, whose elements are 0
};
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
// Means of H_out × W_out windows that cover x evenly: window r has rows ⌊r·H / H_out⌋ up to
// ⌈(r + 1)·H / H_out⌉.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out);
// The largest elements of these windows, otherwise as max_pool2d.
Tensor adaptive_max_pool2d(const Tensor& x, Size2d out);

// The same for signals, x (N, C, L) or (C, L).
struct Pool1dOptions {
  std::int64_t stride = 0, padding = 0;
};
Tensor max_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options = {});
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t out);

enum class Upsample {
  nearest,   // element (r, t) is x's (⌊r·H / H_out⌋, ⌊t·W / W_out⌋)
  bilinear,  // between the four nearest centres, as PyTorch with align_corners=False
};
// x stretched, or shrunk, to `out`. Error if x or out has a size of 0.
Tensor upsample(const Tensor& x, Size2d out, Upsample mode = Upsample::nearest);
struct Scale2d {
  double h = 1, w = 1;
  constexpr Scale2d(double both) : h(both), w(both) {}
  constexpr Scale2d(double height, double width) : h(height), w(width) {}
};
// x stretched by a factor, to ⌊H·scale⌋ rows, as F.interpolate with scale_factor: in place of
// H / H_out, places are computed by 1 / scale, which nearest rounds to f32 unless H_out is H or
// 2·H. Error unless the scale is finite and above 0, and leaves a row and a column.
Tensor upsample_by(const Tensor& x, Scale2d scale, Upsample mode = Upsample::nearest);

// Places of pixels in an image that is turned, stretched and moved: row (y, x) of the result has
// theta[n]·(x, y, 1), x and y from −1 to 1: at the corners' centres with align_corners, else at
// their edges.  theta (N, 2, 3) → (N, H_out, W_out, 2), as grid_sample takes them.
Tensor affine_grid(const Tensor& theta, Size2d out, bool align_corners = false);

enum class GridMode { bilinear, nearest };  // nearest: halves go to the even pixel
// What places outside of the image read: zeros, the pixel at the edge, or the image's reflection.
enum class GridPadding { zeros, border, reflection };
struct GridSampleOptions {
  GridMode mode = GridMode::bilinear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;  // −1 and 1 are the centres of the outermost pixels, not their edges
};
// x at places that a grid names, (Jaderberg et al., "Spatial Transformer Networks", 2015): element
// (n, c, r, t) is channel c of image n at grid[n, r, t], a pair (x, y) from −1 to 1. x and grid get
// gradients; at a pixel's centre, where the grid's has a jump, it is that to the right.  x (N, C,
// H, W), grid (N, H_out, W_out, 2) → (N, C, H_out, W_out).
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

// --- Normalisation of channels: x (N, C, …), weight and bias (C) or undefined. ---

struct BatchNormResult {
  Tensor y;
  Tensor mean, var;  // (C), of x; var divides by one less than it sums. Without gradients.
};
// (x − mean)/√(var + eps)·weight + bias with the mean and the biased variance of each channel over
// all else (Ioffe & Szegedy, "Batch Normalization", 2015): for training. Error if a channel has one
// element.
BatchNormResult batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           double eps = 1e-5);
// The same with a mean and a variance that are given, (C): for evaluation. They are constants:
// Error if a live tape tracks them.
Tensor batch_norm_with(const Tensor& x, const Tensor& mean, const Tensor& var,
                       const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
// The same with the mean and the variance of each group of C / groups channels of each of the N (Wu
// & He, "Group Normalization", 2018). Error if groups does not divide C.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tapegrad
