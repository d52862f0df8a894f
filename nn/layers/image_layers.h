#pragma once

#include <cstdint>

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// Layers of images and signals, plain structs as those of layers.h. Names, initial values and the
// draws for them are PyTorch's, so that a state_dict of the same layers is read as it is.

// x (N, in, H, W) → (N, out, H_out, W_out), see conv2d in image_ops.h.
struct Conv2d {
  Tensor weight;  // (out, in / groups, K_h, K_w)
  Tensor bias;    // (out) or undefined
  Conv2dOptions options;
  Conv2d() = default;
  Conv2d(const Params& p, std::int64_t in, std::int64_t out, Size2d kernel,
         const Conv2dOptions& options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }
};

// x (N, in, H, W) → (N, out, H_out, W_out), see conv_transpose2d in image_ops.h.
struct ConvTranspose2d {
  Tensor weight;  // (in, out / groups, K_h, K_w)
  Tensor bias;    // (out) or undefined
  ConvTranspose2dOptions options;
  ConvTranspose2d() = default;
  ConvTranspose2d(const Params& p, std::int64_t in, std::int64_t out, Size2d kernel,
                  const ConvTranspose2dOptions& options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return conv_transpose2d(x, weight, bias, options); }
};

// x (N, in, L) → (N, out, L_out), see conv1d in ops.h.
struct Conv1d {
  Tensor weight;  // (out, in / groups, K)
  Tensor bias;    // (out) or undefined
  Conv1dOptions options;
  Conv1d() = default;
  Conv1d(const Params& p, std::int64_t in, std::int64_t out, std::int64_t kernel,
         const Conv1dOptions& options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight, bias, options); }
};

// In training, a batch is normed by its own statistics, which the running ones follow; in
// evaluation, by the running ones.
enum class Mode { evaluation, training };

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // running ← (1 − momentum)·running + momentum·batch's
};
// x (N, C, …), see batch_norm in image_ops.h. Initialised to weight 1 and bias 0. A training step
// changes the buffers, which all copies of the layer share: one that runs twice, as inside of
// checkpoint(), counts twice. An empty batch changes nothing.
struct BatchNorm {
  Tensor weight, bias;               // (C)
  Tensor running_mean, running_var;  // (C), buffers: 0 and 1 at first
  Tensor num_batches_tracked;        // a scalar, i64, a buffer
  BatchNormOptions options;
  BatchNorm() = default;
  BatchNorm(const Params& p, std::int64_t channels, const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x, Mode mode) const;
};
using BatchNorm1d = BatchNorm;  // (N, C) or (N, C, L)
using BatchNorm2d = BatchNorm;  // (N, C, H, W)

// x (N, C, …), see group_norm in image_ops.h. Initialised to weight 1 and bias 0.
struct GroupNorm {
  Tensor weight, bias;  // (C)
  std::int64_t groups = 1;
  double eps = 1e-5;
  GroupNorm() = default;
  GroupNorm(const Params& p, std::int64_t groups, std::int64_t channels, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const { return group_norm(x, groups, weight, bias, eps); }
};

}  // namespace tapegrad::nn
