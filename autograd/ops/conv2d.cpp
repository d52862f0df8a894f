#include <algorithm>
#include <string_view>
#include <utility>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/image_ops.h"
#include "tapegrad/autograd/ops/conv2d_kernels.h"

namespace tapegrad {
namespace {

// A convolution is linear in x and in its weight, and so are its two gradients: each of the three
// has the two others as its derivatives.
Tensor input_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                      const Tensor& bias = {});
Tensor weight_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& x);

// What gradient i needs, kept under number i.
void keep_factors(Saved& saved, const Tensor& a, const Tensor& b) {
  saved.keep(saved.needs(0) ? b : Tensor());
  saved.keep(saved.needs(1) ? a : Tensor());
}

Tensor bias_gradient(const Tensor& dy, const Needs& needs) {
  return needs[2] ? sum(dy, {0, 2, 3}) : Tensor();
}

Tensor convolve(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias = {}) {
  return apply(
      "conv2d", {x, w, bias},
      [g](Inputs in, Saved& saved) {
        keep_factors(saved, in[0], in[1]);
        return conv2d_forward(g, in[0], in[1], in[2]);
      },
      [g](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? input_gradient(g, dy, saved[0]) : Tensor(),
                needs[1] ? weight_gradient(g, dy, saved[1]) : Tensor(), bias_gradient(dy, needs)};
      });
}

Tensor input_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                      const Tensor& bias) {
  return apply(
      "conv_transpose2d", {dy, w, bias},
      [g](Inputs in, Saved& saved) {
        keep_factors(saved, in[0], in[1]);
        const Tensor dx = conv2d_input_gradient(g, in[0], in[1]);
        return in[2].defined() ? dx + reshape(in[2], {g.channels, 1, 1}) : dx;
      },
      [g](const Tensor& ddx, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? convolve(g, ddx, saved[0]) : Tensor(),
                needs[1] ? weight_gradient(g, saved[1], ddx) : Tensor(), bias_gradient(ddx, needs)};
      });
}

Tensor weight_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& x) {
  return apply(
      "conv2d_weight_gradient", {dy, x},
      [g](Inputs in, Saved& saved) {
        keep_factors(saved, in[0], in[1]);
        return conv2d_weight_gradient(g, in[0], in[1]);
      },
      [g](const Tensor& ddw, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? convolve(g, saved[0], ddw) : Tensor(),
                needs[1] ? input_gradient(g, saved[1], ddw) : Tensor()};
      });
}

constexpr std::int64_t kLimit = std::int64_t{1} << 31;

void check_numbers(std::string_view op, const Tensor& weight, Size2d stride, Size2d padding,
                   Size2d dilation, std::int64_t groups) {
  check(weight.rank() == 4, "[{}] the weight must have 4 dimensions, not {}", op, weight.shape());
  const std::pair<const char*, std::pair<Size2d, std::int64_t>> least[] = {
      {"stride", {stride, 1}},
      {"dilation", {dilation, 1}},
      {"padding", {padding, 0}},
      {"a kernel of", {{weight.dim(2), weight.dim(3)}, 1}}};
  for (const auto& [name, of] : least) {
    const auto& [size, from] = of;
    check(size.h >= from && size.w >= from && size.h < kLimit && size.w < kLimit,
          "[{}] {} ({}, {}) must be from {} to 2^31 - 1", op, name, size.h, size.w, from);
  }
  check(groups > 0, "[{}] {} groups must be above 0", op, groups);
}

void check_tensors(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   std::int64_t out) {
  check(x.rank() == 4, "[{}] x must be (N, C, H, W) or (C, H, W), not {}", op, x.shape());
  check(x.dim(2) < kLimit && x.dim(3) < kLimit, "[{}] x {} is too large", op, x.shape());
  check(x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
        "[{}] dtypes differ: x is {}, the weight {}{}", op, name_of(x.dtype()),
        name_of(weight.dtype()),
        bias.defined() ? fmt::format(", the bias {}", name_of(bias.dtype())) : "");
  check(!bias.defined() || bias.shape() == Shape{out}, "[{}] bias {} does not fit weight {}", op,
        bias.defined() ? bias.shape() : Shape{}, weight.shape());
}

// The size that a convolution leaves of `size`.
std::int64_t out_size(std::int64_t size, std::int64_t taps, std::int64_t stride,
                      std::int64_t padding, std::int64_t dilation) {
  const std::int64_t reach = dilation * (taps - 1) + 1, padded = size + 2 * padding;
  check(reach <= padded,
        "[conv2d] a kernel that reaches over {} does not fit into {} padded elements", reach,
        padded);
  return (padded - reach) / stride + 1;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (x.rank() == 3) {
    const Tensor y = conv2d(reshape(x, x.shape().inserted(0, 1)), weight, bias, options);
    return reshape(y, y.shape().without(0));
  }
  const auto [stride, padding, dilation, groups] = options;
  check_numbers("conv2d", weight, stride, padding, dilation, groups);
  check_tensors("conv2d", x, weight, bias, weight.dim(0));
  check(x.dim(1) % groups == 0 && weight.dim(0) % groups == 0,
        "[conv2d] {} groups do not divide both x {} and the weight {} evenly", groups, x.shape(),
        weight.shape());
  check(weight.dim(1) == x.dim(1) / groups, "[conv2d] x {} in {} groups does not fit weight {}",
        x.shape(), groups, weight.shape());
  const Size2d size{x.dim(2), x.dim(3)}, taps{weight.dim(2), weight.dim(3)};
  const Size2d out{out_size(size.h, taps.h, stride.h, padding.h, dilation.h),
                   out_size(size.w, taps.w, stride.w, padding.w, dilation.w)};
  return convolve({.batch = x.dim(0),
                   .channels = x.dim(1),
                   .out = weight.dim(0),
                   .groups = groups,
                   .size = size,
                   .taps = taps,
                   .out_size = out,
                   .stride = stride,
                   .padding = padding,
                   .dilation = dilation},
                  x, weight, bias);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  if (x.rank() == 3) {
    const Tensor y = conv_transpose2d(reshape(x, x.shape().inserted(0, 1)), weight, bias, options);
    return reshape(y, y.shape().without(0));
  }
  const auto [stride, padding, more, dilation, groups] = options;
  check_numbers("conv_transpose2d", weight, stride, padding, dilation, groups);
  const std::int64_t channels =
      weight.dim(1) < kLimit && groups < kLimit ? weight.dim(1) * groups : -1;
  check_tensors("conv_transpose2d", x, weight, bias, channels);
  check(x.dim(1) == weight.dim(0) && x.dim(1) % groups == 0,
        "[conv_transpose2d] x {} in {} groups does not fit weight {}", x.shape(), groups,
        weight.shape());
  check(more.h >= 0 && more.w >= 0 && more.h < std::max(stride.h, dilation.h) &&
            more.w < std::max(stride.w, dilation.w),
        "[conv_transpose2d] output_padding ({}, {}) must be below stride or dilation", more.h,
        more.w);
  const auto grown = [&](std::int64_t n, auto of) {
    const std::int64_t size = (n - 1) * of(stride) - 2 * of(padding) +
                              of(dilation) * (of(Size2d{weight.dim(2), weight.dim(3)}) - 1) +
                              of(more) + 1;
    check(n > 0 && size > 0 && size < kLimit,
          "[conv_transpose2d] x {} with weight {} would grow to a size of {}", x.shape(),
          weight.shape(), size);
    return size;
  };
  return input_gradient({.batch = x.dim(0),
                         .channels = channels,
                         .out = x.dim(1),
                         .groups = groups,
                         .size = {grown(x.dim(2), [](Size2d s) { return s.h; }),
                                  grown(x.dim(3), [](Size2d s) { return s.w; })},
                         .taps = {weight.dim(2), weight.dim(3)},
                         .out_size = {x.dim(2), x.dim(3)},
                         .stride = stride,
                         .padding = padding,
                         .dilation = dilation},
                        x, weight, bias);
}

}  // namespace tapegrad
