#include <cmath>
#include <limits>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// Runs f(in, out, n) on each row of the last dimension; out has out_n elements per row.
template <class F>
Tensor map_rows(const Tensor& x, const Shape& shape, const F& f) {
  Tensor y = Tensor::empty(shape, x.dtype());
  const std::int64_t n = x.dim(-1), rows = x.shape().with(-1, 1).numel();
  const std::int64_t out_n = rows == 0 ? 0 : y.numel() / rows;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    parallel_for(rows, std::max<std::int64_t>(1, kElementGrain / 4 / std::max<std::int64_t>(1, n)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) f(in + i * n, out + i * out_n, n);
                 });
  });
  return y;
}

// Calls op on x with `dim` brought to the last place, and brings it back.
template <class Op>
Tensor on_last_dim(std::string_view name, const Tensor& x, int dim, const Op& op) {
  if (x.rank() == 0) return reshape(on_last_dim(name, reshape(x, {1}), dim, op), {});
  dim = axis_index(name, x.shape(), dim);
  if (dim == x.rank() - 1) return op(x);
  return transpose(op(transpose(x, dim, -1)), dim, -1);
}

// The softmax of each row, as `kernel` makes it.
template <class Kernel>
Tensor softmax_of_rows(std::string_view name, const Tensor& x, const Kernel& kernel,
                       const OnnxRow& row = {}) {
  return apply(
      name, {x},
      [kernel](Inputs in, Saved& saved) {
        return saved.keep(map_rows(in[0], in[0].shape(), kernel));
      },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor& y = saved[0];
        return {y * (dy - sum(dy * y, {-1}, true))};
      },
      {.onnx = row});
}

// The derivative of log Σeˣ: softmax, but e^(x − ∞) where the sum is infinite.
Tensor log_sum_exp_slope(const Tensor& x) {
  return softmax_of_rows("log_sum_exp_slope", x, [](const auto* row, auto* out, auto n) {
    const auto top = max_row(row, n);
    if (!std::isinf(top)) return softmax_row(row, out, n);
    const auto y = log_sum_exp_row(row, n);
    for (std::int64_t i = 0; i < n; ++i) out[i] = fast_exp(row[i] - y);
  });
}

}  // namespace

Tensor softmax(const Tensor& input, int dim) {
  return on_last_dim("softmax", input, dim, [](const Tensor& x) {
    return softmax_of_rows(
        "softmax", x, [](const auto* row, auto* out, auto n) { softmax_row(row, out, n); },
        "Softmax");
  });
}

Tensor log_softmax(const Tensor& input, int dim) {
  return on_last_dim("log_softmax", input, dim, [](const Tensor& x) {
    return apply(
        "log_softmax", {x},
        [](Inputs in, Saved& saved) {
          return saved.keep(map_rows(in[0], in[0].shape(), [](const auto* row, auto* out, auto n) {
            const auto sum = exp_sum_row(row, n);
            const auto log_total = exact_log(sum.total);
            for (std::int64_t i = 0; i < n; ++i) out[i] = (row[i] - sum.top) - log_total;
          }));
        },
        [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
          return {dy - exp(saved[0]) * sum(dy, {-1}, true)};
        },
        {.onnx = "LogSoftmax"});
  });
}

Tensor log_sum_exp(const Tensor& input, int dim, bool keepdim) {
  const Tensor kept = on_last_dim("log_sum_exp", input, dim, [](const Tensor& x) {
    return apply(
        "log_sum_exp", {x},
        [](Inputs in, Saved& saved) {
          saved.keep(in[0]);
          return map_rows(in[0], in[0].shape().with(-1, 1), [](const auto* row, auto* out, auto n) {
            *out = log_sum_exp_row(row, n);
          });
        },
        [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
          return {dy * log_sum_exp_slope(saved[0])};
        },
        {.onnx = [](OnnxCall& c) {
          return c("ReduceLogSumExp", {c.in(0)}, {{"axes", OnnxWholes{-1}}});
        }});
  });
  return keepdim || input.rank() == 0 ? kept : reshape(kept, input.shape().without(dim));
}

}  // namespace tapegrad
