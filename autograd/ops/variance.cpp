#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/line_scale.h"
#include "tapegrad/autograd/ops/internal/marked_dims.h"

namespace tapegrad {
namespace {

// Σ(x − mean)² / divisor is variance·scale². The dimensions stay.
struct WideVariance {
  Tensor variance, scale;  // f64
};

// Computed in f64, as PyTorch has it, which holds the squares of f32. Those of f64 are of numbers
// around 1.
WideVariance wide_variance(const Tensor& x, const std::vector<int>& dims, double divisor) {
  const bool as_is = x.dtype() == DType::f32;
  const Tensor all = x.to(DType::f64);
  const Tensor scale =
      as_is ? Tensor::ones({}, DType::f64) : line_scale(all, marked_dims("var", x.shape(), dims));
  const Tensor wide = as_is ? all : all / scale;
  Tensor centred = wide - mean(wide, dims, true);
  centred = centred - mean(centred, dims, true);  // which takes out the rounding of that mean
  return {sum(centred * centred, dims, true) / divisor, scale};
}

// The variance as ops.
Tensor composed_variance(const Tensor& x, const std::vector<int>& dims, double divisor) {
  const Tensor centred = x - mean(x, dims, true);
  return sum(centred * centred, dims, true) / divisor;
}

// The number of elements, less one if unbiased.
double divisor_of(std::string_view op, const Tensor& x, const std::vector<int>& dims,
                  bool unbiased) {
  const std::int64_t n = marked_count(x.shape(), marked_dims(op, x.shape(), dims));
  return static_cast<double>(std::max<std::int64_t>(0, n - unbiased));
}

Tensor without_dims(std::string_view op, const Tensor& y, const Shape& from,
                    const std::vector<int>& dims, bool keepdim) {
  return keepdim ? y : reshape(y, kept_shape(from, marked_dims(op, from, dims), false));
}

}  // namespace

Tensor var(const Tensor& x, const std::vector<int>& dims, bool unbiased, bool keepdim) {
  const double divisor = divisor_of("var", x, dims, unbiased);
  const Tensor variance = apply(
      "var", {x},
      [=](Inputs in, Saved& saved) {
        const auto [variance, scale] = wide_variance(saved.keep(in[0]), dims, divisor);
        return (variance * scale * scale).to(in[0].dtype());
      },
      // The mean has no part in it: what would come through it is the sum of x − mean, which is 0.
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor& from = saved[0];
        const double factor = from.numel() == 0 ? 0 : 2 / divisor;
        return {(from - mean(from, dims, true)) * (dy * factor)};
      },
      {.onnx = [=](OnnxCall& c) {
        return c.composed([&](Inputs in) { return composed_variance(in[0], dims, divisor); });
      }});
  return without_dims("var", variance, x.shape(), dims, keepdim);
}

// The variance is never rounded to f32, whose range is too small for squares of 1e20 or 1e-25.
Tensor stddev(const Tensor& x, const std::vector<int>& dims, bool unbiased, bool keepdim) {
  const double divisor = divisor_of("stddev", x, dims, unbiased);
  const Tensor deviation = apply(
      "stddev", {x},
      [=](Inputs in, Saved& saved) {
        const auto [variance, scale] = wide_variance(saved.keep(in[0]), dims, divisor);
        return saved.keep((sqrt(variance) * scale).to(in[0].dtype()));
      },
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor &from = saved[0], &y = saved[1], zero = eq(y, 0);
        const Tensor ratio = (from - mean(from, dims, true)) / masked_fill(y, zero, 1);
        return {ratio * masked_fill(dy / divisor, zero, 0)};
      },
      {.onnx = [=](OnnxCall& c) {
        return c.composed([&](Inputs in) { return sqrt(composed_variance(in[0], dims, divisor)); });
      }});
  return without_dims("stddev", deviation, x.shape(), dims, keepdim);
}

}  // namespace tapegrad
