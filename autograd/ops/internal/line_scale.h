#pragma once

#include <cmath>
#include <vector>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops/internal/marked_dims.h"

namespace tapegrad {

// The largest |element| of each line of x, f64, along the marked dimensions, or 1 if that is 0 or
// no finite number. The dimensions keep a size of 1.
inline Tensor line_largest(const Tensor& x, const std::vector<bool>& marked) {
  Tensor scale = Tensor::zeros(kept_shape(x.shape(), marked, true), DType::f64);
  const BroadcastPlan plan = plan_broadcast("line_scale", x.shape(), scale.shape());
  const double* in = x.data<double>();
  auto* largest = scale.mutable_data<double>();
  parallel_for(1, 1, [&](std::int64_t, std::int64_t) {  // which a dry run leaves out
    const std::int64_t stride = plan.dims.back().b_stride;
    detail::walk_rows(plan, 0, x.numel(), [=](auto ix, auto is, auto begin, auto end) {
      for (std::int64_t k = 0; k < end - begin; ++k) {
        double& most = largest[is + k * stride];
        const double v = std::abs(in[ix + k]);
        if (v > most || std::isnan(v)) most = v;
      }
    });
    for (std::int64_t i = 0; i < scale.numel(); ++i) {
      const bool usable = largest[i] > 0 && std::isfinite(largest[i]);
      if (!usable) largest[i] = 1;
    }
  });
  return scale;
}

// The power of two below it. Division by it is exact but for denormals, and squares of what it
// leaves stay in the range.
inline Tensor line_scale(const Tensor& x, const std::vector<bool>& marked) {
  return map(line_largest(x, marked),
             [](auto largest) { return std::ldexp(decltype(largest){1}, std::ilogb(largest)); });
}

}  // namespace tapegrad
