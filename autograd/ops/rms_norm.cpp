#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/ops/internal/norm_rows.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {
namespace {

// y = x·s·w; w may be null.
template <class T>
void scale_row(const T* __restrict x, const T* __restrict w, T s, std::int64_t n, T* __restrict y) {
  if (w != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * s * w[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * s;
  }
}

FusedOp::Output normalised(Inputs in, double eps) {
  const Tensor &x = in[0], &weight = in[1];
  const std::int64_t n = x.dim(-1), rows = x.shape().with(-1, 1).numel();
  Tensor y = Tensor::empty(x.shape(), x.dtype()), scales = Tensor::empty({rows}, x.dtype());
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *w = weight.defined() ? weight.data<T>() : nullptr;
    T *to = y.mutable_data<T>(), *scale = scales.mutable_data<T>();
    parallel_for(rows, row_grain(n), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* row = from + r * n;
        const T squares = sum_row<T>(n, [=](auto i) { return row[i] * row[i]; });
        scale[r] = inverse_root(squares / static_cast<T>(n), eps);
        scale_row(row, w, scale[r], n, to + r * n);
      }
    });
  });
  return {y, {scales}};
}

// With the scale s = 1/√(mean(x²) + ε) and g = dy·w: ds/dx = −s³·x/n, so
// dx = s·(g − x·s²·mean(g·x)). `dw` gets this row's dy·x·s added.
template <class T>
void backward_row(const T* __restrict dy, const T* __restrict x, const T* __restrict w, T s,
                  std::int64_t n, T* __restrict dx, T* __restrict dw) {
  const T sum_gx = sum_row<T>(n, [=](auto i) { return dy[i] * w[i] * (x[i] * s); });
  const T mean_gx = sum_gx / static_cast<T>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const T normal = x[i] * s;
    dx[i] = s * (dy[i] * w[i] - normal * mean_gx);
    dw[i] += dy[i] * normal;
  }
}

Grads gradients(const Tensor& dy, Inputs in, const Tensor& scales) {
  const Tensor &x = in[0], &weight = in[1];
  const std::int64_t n = x.dim(-1);
  const Tensor factors = weight.defined() ? weight : Tensor::ones({n}, x.dtype());
  Tensor dx = Tensor::empty(x.shape(), x.dtype()), dweight;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *d = dy.data<T>(), *from = x.data<T>(), *w = factors.data<T>(),
            *scale = scales.data<T>();
    T* to = dx.mutable_data<T>();
    const auto add_row = [=](std::int64_t r, const std::array<T*, 1>& sums) {
      backward_row(d + r * n, from + r * n, w, scale[r], n, to + r * n, sums[0]);
    };
    dweight = sums_over_rows<T, 1>(scales.numel(), n, add_row)[0];
  });
  return {dx, weight.defined() ? dweight : Tensor()};
}

Tensor rms_norm_reference(Inputs in, double eps) {
  const Tensor &x = in[0], &weight = in[1];
  const Tensor y = x / sqrt(without_overflow(mean(x * x, {-1}, true)) + eps);
  return weight.defined() ? y * weight : y;
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check(x.rank() >= 1, "[rms_norm] a scalar has no dimension to normalise");
  check_numbers("rms_norm", {{"eps", eps, at_least(0)}});
  check(!weight.defined() || weight.shape() == Shape{x.dim(-1)},
        "[rms_norm] weight {} does not fit x {}", weight.defined() ? weight.shape() : Shape{},
        x.shape());
  return apply_fused({x, weight},
                     {.name = "rms_norm",
                      .backward_name = "rms_norm_backward",
                      .forward = [eps](Inputs in, const Needs&) { return normalised(in, eps); },
                      .backward = [](const Tensor& dy, Inputs in, Inputs notes,
                                     const Needs&) { return gradients(dy, in, notes[0]); },
                      .reference = [eps](Inputs in) { return rms_norm_reference(in, eps); },
                      .cheap = true});
}

}  // namespace tapegrad
