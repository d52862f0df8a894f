#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"

namespace tapegrad {

// Calls run(first, stride, n) for each line of numbers along the axis: lines are independent.
template <class Run>
void for_each_line(const Axis& axis, const Run& run) {
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, axis.n) + 1;
  parallel_for(axis.outer * axis.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      run(i / axis.inner * axis.n * axis.inner + i % axis.inner, axis.inner, axis.n);
    }
  });
}

// Along dim of integers or truth values, in i64: element k is what overflows(element k − 1 of the
// result, x[k], &result) puts there. Error where that returns true.
template <class Overflows>
Tensor running_integers(std::string_view op, const Tensor& x, int dim, const Overflows& overflows) {
  Tensor y = x.to(DType::i64);
  auto* out = y.mutable_data<std::int64_t>();
  for_each_line(Axis(y.shape(), dim), [=](auto first, auto stride, auto n) {
    for (std::int64_t i = first; i < first + (n - 1) * stride; i += stride) {
      const std::int64_t next = out[i + stride];
      check(!overflows(out[i], next, &out[i + stride]),
            "[{}] {} and {} give a number that i64 does not hold; use x.to(DType::f64)", op, out[i],
            next);
    }
  });
  return y;
}

}  // namespace tapegrad
