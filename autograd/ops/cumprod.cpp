#include <algorithm>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/axis.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/recurrence.h"

namespace tapegrad {
namespace {

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

// The products of integers, in i64.
Tensor integer_cumprod(const Tensor& x, int dim) {
  Tensor y = x.to(DType::i64);
  auto* out = y.mutable_data<std::int64_t>();
  for_each_line(Axis(y.shape(), dim), [=](auto first, auto stride, auto n) {
    for (std::int64_t i = first; i < first + (n - 1) * stride; i += stride) {
      const std::int64_t factor = out[i + stride];
      check(!__builtin_mul_overflow(out[i], factor, &out[i + stride]),
            "[cumprod] {} and {} give a number that i64 does not hold; use x.to(DType::f64)",
            out[i], factor);
    }
  });
  return y;
}

}  // namespace

Tensor recurrence(const Tensor& b, const Tensor& x, int dim, bool from_end) {
  return apply(
      "recurrence", {b, x},
      [=](Inputs in, Saved& saved) {
        Tensor r = Tensor::empty(in[0].shape(), in[0].dtype());
        dispatch(r.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T *added = in[0].data<T>(), *factor = in[1].data<T>();
          T* out = r.mutable_data<T>();
          for_each_line(Axis(r.shape(), dim), [=](auto first, auto stride, auto n) {
            const std::int64_t step = from_end ? -stride : stride;
            std::int64_t i = from_end ? first + (n - 1) * stride : first;
            if (n > 0) out[i] = added[i];
            for (std::int64_t k = 1; k < n; ++k, i += step) {
              out[i + step] = added[i + step] + factor[from_end ? i : i + step] * out[i];
            }
          });
        });
        saved.keep(in[1]);
        return saved.keep(r);
      },
      // Each direction is the other's derivative with respect to b. Element k of x is multiplied by
      // r[k − 1] in one direction and by r[k] in the other.
      [=](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &factor = saved[0], &r = saved[1];
        const Tensor other = recurrence(dy, factor, dim, !from_end);
        if (!needs[1]) return {other, {}};
        const std::int64_t n = r.dim(dim);
        const Tensor &later = from_end ? r : other, &earlier = from_end ? other : r;
        if (n == 0) return {other, later * earlier};
        const Tensor products = slice(later, dim, 1, n) * slice(earlier, dim, 0, n - 1);
        return {other, pad(products, dim, 1, n)};
      });
}

// dx[k] is the product of what stands before k, times dy[k] + x[k + 1]·(dy[k + 1] + …): nothing is
// divided by x, which may be 0.
Tensor cumprod(const Tensor& x, int dim) {
  if (x.rank() == 0) {
    check(dim == 0 || dim == -1, "[cumprod] there is no dimension {} in {}", dim, x.shape());
    return reshape(cumprod(reshape(x, {1}), dim), {});
  }
  dim = axis_index("cumprod", x.shape(), dim);
  if (!is_float(x.dtype())) return integer_cumprod(x, dim);
  return apply(
      "cumprod", {x},
      [=](Inputs in, Saved& saved) {
        Tensor y = saved.keep(in[0]).clone();
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          T* out = y.mutable_data<T>();
          for_each_line(Axis(y.shape(), dim), [=](auto first, auto stride, auto n) {
            double product = 1;
            for (std::int64_t i = first; i < first + n * stride; i += stride) {
              product *= static_cast<double>(out[i]);
              out[i] = static_cast<T>(product);
            }
          });
        });
        return saved.keep(y);
      },
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor &from = saved[0], &y = saved[1];
        const Tensor tail = recurrence(dy, from, dim, true);
        const std::int64_t n = from.dim(dim);
        if (n == 0) return {tail};
        const Tensor one = Tensor::ones(from.shape().with(dim, 1), from.dtype());
        return {concat({one, slice(y, dim, 0, n - 1)}, dim) * tail};
      });
}

}  // namespace tapegrad
