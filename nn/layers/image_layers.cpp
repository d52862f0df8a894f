#include "tapegrad/nn/layers/image_layers.h"

#include <initializer_list>
#include <limits>
#include <string_view>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::nn {
namespace {

// (out, in / groups, kernel…): in must be a multiple of groups, which an op would find out later.
Shape kernel_shape(std::string_view layer, std::int64_t in, std::int64_t out, std::int64_t groups,
                   std::initializer_list<std::int64_t> kernel) {
  check(in > 0 && out > 0 && groups > 0 && in % groups == 0 && out % groups == 0,
        "[{}] {} groups do not divide {} channels in and {} out evenly", layer, groups, in, out);
  Shape shape{out, in / groups};
  for (const std::int64_t size : kernel) {
    check(size > 0, "[{}] a kernel of {} has no taps", layer, size);
    shape.push_back(size);
  }
  shape.numel();  // Error if that overflows
  return shape;
}

Init initial(const Shape& weight) { return kaiming_uniform(weight.numel() / weight[0]); }

// Adds 1 to a counter, which PyTorch's files have as i64, and stops at the type's largest number.
// As a loop of kernels, which a dry run leaves out.
void count_batch(Tensor counter) {
  dispatch_all(counter.dtype(), [&](auto zero) {
    auto* n = counter.mutable_data<decltype(zero)>();
    parallel_for(1, 1, [=](std::int64_t, std::int64_t) {
      using T = decltype(zero);
      if (*n < std::numeric_limits<T>::max()) *n = static_cast<T>(*n + 1);
    });
  });
}

}  // namespace

Conv2d::Conv2d(const Params& p, std::int64_t in, std::int64_t out, Size2d kernel,
               const Conv2dOptions& how, bool with_bias)
    : options(how) {
  const Shape shape = kernel_shape("Conv2d", in, out, how.groups, {kernel.h, kernel.w});
  weight = p.parameter("weight", shape, initial(shape));
  if (with_bias) bias = p.parameter("bias", {out}, initial(shape));
}

ConvTranspose2d::ConvTranspose2d(const Params& p, std::int64_t in, std::int64_t out, Size2d kernel,
                                 const ConvTranspose2dOptions& how, bool with_bias)
    : options(how) {
  kernel_shape("ConvTranspose2d", in, out, how.groups, {kernel.h, kernel.w});
  const Shape shape{in, out / how.groups, kernel.h, kernel.w};
  weight = p.parameter("weight", shape, initial(shape));
  if (with_bias) bias = p.parameter("bias", {out}, initial(shape));
}

Conv1d::Conv1d(const Params& p, std::int64_t in, std::int64_t out, std::int64_t kernel,
               const Conv1dOptions& how, bool with_bias)
    : options(how) {
  const Shape shape = kernel_shape("Conv1d", in, out, how.groups, {kernel});
  weight = p.parameter("weight", shape, initial(shape));
  if (with_bias) bias = p.parameter("bias", {out}, initial(shape));
}

BatchNorm::BatchNorm(const Params& p, std::int64_t channels, const BatchNormOptions& how)
    : weight(p.parameter("weight", {channels}, ones())),
      bias(p.parameter("bias", {channels}, zeros())),
      running_mean(p.buffer("running_mean", {channels},
                            [=] { return Tensor::zeros({channels}, p.dtype()); })),
      running_var(
          p.buffer("running_var", {channels}, [=] { return Tensor::ones({channels}, p.dtype()); })),
      num_batches_tracked(
          p.buffer("num_batches_tracked", {}, [] { return Tensor::zeros({}, DType::i64); })),
      options(how) {
  check_numbers("BatchNormOptions",
                {{"eps", how.eps, at_least(0)}, {"momentum", how.momentum, from_to(0, 1)}});
}

Tensor BatchNorm::operator()(const Tensor& x, Mode mode) const {
  if (mode == Mode::evaluation) {
    return batch_norm_with(x, running_mean, running_var, weight, bias, options.eps);
  }
  const BatchNormResult result = batch_norm(x, weight, bias, options.eps);
  if (x.numel() == 0) return result.y;
  const auto follow = [&](Tensor running, const Tensor& batch) {
    running *= 1 - options.momentum;
    running += batch * options.momentum;
  };
  follow(running_mean, result.mean);
  follow(running_var, result.var);
  count_batch(num_batches_tracked);
  return result.y;
}

GroupNorm::GroupNorm(const Params& p, std::int64_t n, std::int64_t channels, double epsilon)
    : weight(p.parameter("weight", {channels}, ones())),
      bias(p.parameter("bias", {channels}, zeros())),
      groups(n),
      eps(epsilon) {}

}  // namespace tapegrad::nn
