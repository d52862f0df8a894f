#include <algorithm>
#include <string_view>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/ops/internal/conv2d_kernels.h"

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

std::vector<OnnxAttribute> onnx_attributes(const ConvGeometry& g) {
  std::vector<OnnxAttribute> attributes = onnx_dilated_window(g);
  attributes.push_back({"group", g.groups});
  return attributes;
}

// Rows and columns of x that no tap reaches, which ONNX is told of.
std::vector<OnnxAttribute> onnx_transposed_attributes(const ConvGeometry& g) {
  std::vector<OnnxAttribute> attributes = onnx_attributes(g);
  const auto more = [&g](std::int64_t Size2d::*of) {
    const std::int64_t reach = g.dilation.*of * (g.taps.*of - 1) + 1;
    return g.size.*of + 2 * g.padding.*of - (g.out_size.*of - 1) * g.stride.*of - reach;
  };
  attributes.push_back({"output_padding", OnnxWholes{more(&Size2d::h), more(&Size2d::w)}});
  return attributes;
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
      },
      {.onnx = [g](OnnxCall& c) { return c("Conv", c.inputs(), onnx_attributes(g)); }});
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
      },
      {.onnx = [g](OnnxCall& c) {
        return c("ConvTranspose", c.inputs(), onnx_transposed_attributes(g));
      }});
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

void check_numbers(std::string_view op, const Tensor& weight, Size2d stride, Size2d padding,
                   Size2d dilation, std::int64_t groups) {
  check(weight.rank() == 4, "[{}] the weight must have 4 dimensions, not {}", op, weight.shape());
  check_window(op, {weight.dim(2), weight.dim(3)}, stride, padding, dilation);
  check(groups > 0, "[{}] {} groups must be above 0", op, groups);
}

void check_tensors(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   std::int64_t out) {
  check(x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
        "[{}] dtypes differ: x is {}, the weight {}{}", op, name_of(x.dtype()),
        name_of(weight.dtype()),
        bias.defined() ? fmt::format(", the bias {}", name_of(bias.dtype())) : "");
  check(!bias.defined() || bias.shape() == Shape{out}, "[{}] bias {} does not fit weight {}", op,
        bias.defined() ? bias.shape() : Shape{}, weight.shape());
}

ConvGeometry geometry_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Conv2dOptions& options) {
  const auto [stride, padding, dilation, groups] = options;
  check_numbers("conv2d", weight, stride, padding, dilation, groups);
  check_tensors("conv2d", x, weight, bias, weight.dim(0));
  check(x.dim(1) % groups == 0 && weight.dim(0) % groups == 0,
        "[conv2d] {} groups do not divide both x {} and the weight {} evenly", groups, x.shape(),
        weight.shape());
  check(weight.dim(1) == x.dim(1) / groups, "[conv2d] x {} in {} groups does not fit weight {}",
        x.shape(), groups, weight.shape());
  const Size2d size{x.dim(2), x.dim(3)}, taps{weight.dim(2), weight.dim(3)};
  return {.batch = x.dim(0),
          .channels = x.dim(1),
          .out = weight.dim(0),
          .groups = groups,
          .size = size,
          .taps = taps,
          .out_size = windows_in("conv2d", size, taps, stride, padding, dilation),
          .stride = stride,
          .padding = padding,
          .dilation = dilation};
}

// The convolution whose output x stands for.
ConvGeometry geometry_behind(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const ConvTranspose2dOptions& options) {
  constexpr std::string_view op = "conv_transpose2d";
  const auto [stride, padding, more, dilation, groups] = options;
  check_numbers(op, weight, stride, padding, dilation, groups);
  check(x.dim(1) == weight.dim(0) && x.dim(1) % groups == 0,
        "[{}] x {} in {} groups does not fit weight {}", op, x.shape(), groups, weight.shape());
  check_tensors(op, x, weight, bias, weight.dim(1) * groups);
  check(more.h >= 0 && more.w >= 0 && more.h < std::max(stride.h, dilation.h) &&
            more.w < std::max(stride.w, dilation.w),
        "[{}] output_padding ({}, {}) must be below stride or dilation", op, more.h, more.w);
  const auto grown = [&](int dim, std::int64_t Size2d::*of) {
    const std::int64_t reach = options.dilation.*of * (weight.dim(dim) - 1) + 1;
    const std::int64_t size = (x.dim(dim) - 1) * options.stride.*of - 2 * options.padding.*of +
                              reach + options.output_padding.*of;
    check(x.dim(dim) > 0 && size > 0 && size < kSizeLimit,
          "[{}] x {} with weight {} would grow to a size of {}", op, x.shape(), weight.shape(),
          size);
    return size;
  };
  return {.batch = x.dim(0),
          .channels = weight.dim(1) * groups,
          .out = x.dim(1),
          .groups = groups,
          .size = {grown(2, &Size2d::h), grown(3, &Size2d::w)},
          .taps = {weight.dim(2), weight.dim(3)},
          .out_size = {x.dim(2), x.dim(3)},
          .stride = stride,
          .padding = padding,
          .dilation = dilation};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  return for_batch("conv2d", x, [&](const Tensor& images) {
    return convolve(geometry_of(images, weight, bias, options), images, weight, bias);
  });
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return for_batch("conv_transpose2d", x, [&](const Tensor& images) {
    return input_gradient(geometry_behind(images, weight, bias, options), images, weight, bias);
  });
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  const auto [stride, padding, more, dilation, groups] = options;
  check(weight.rank() == 3,
        "[conv_transpose1d] the weight must be (in, out / groups, taps), not {}", weight.shape());
  const ConvTranspose2dOptions rows{.stride = {1, stride},
                                    .padding = {0, padding},
                                    .output_padding = {0, more},
                                    .dilation = {1, dilation},
                                    .groups = groups};
  return for_signal("conv_transpose1d", x, [&](const Tensor& signals) {
    return conv_transpose2d(signals, reshape(weight, weight.shape().inserted(2, 1)), bias, rows);
  });
}

}  // namespace tapegrad
