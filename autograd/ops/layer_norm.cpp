#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/ops/internal/norm_rows.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {
namespace {

// The divisor of the sum of squares that gives the variance.
std::int64_t degrees(std::int64_t n, const LayerNormOptions& options) {
  return options.unbiased ? n - 1 : n;
}

template <class T>
T inverse_std(T variance, const LayerNormOptions& options) {
  return inverse_root(variance, options.eps, options.eps_outside);
}

// y = (x − mean)·rstd·w + b; w and b may be null. Written as one loop for each case: a row is then
// read and written once.
template <class T>
void scale_row(const T* __restrict x, const T* __restrict w, const T* __restrict b, T mean, T rstd,
               std::int64_t n, T* __restrict y) {
  if (w != nullptr && b != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
  } else if (w != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * w[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd + (b != nullptr ? b[i] : T{0});
  }
}

template <class T>
struct Moments {
  T mean, variance;
};

// Where a row varies by less than 1/16 of its mean, the rounding of the mean would show in its
// differences: of equal elements, which should give 0, it is all that is left. The mean of the
// differences takes it out.
template <class T>
Moments<T> moments(const T* x, std::int64_t n, T divisor) {
  const auto variance_around = [=](T m) {
    return sum_row<T>(n, [=](auto i) { return (x[i] - m) * (x[i] - m); }) / divisor;
  };
  const T mean = sum_row<T>(n, [=](auto i) { return x[i]; }) / static_cast<T>(n);
  const T variance = variance_around(mean);
  if (!(variance * 256 <= mean * mean)) return {mean, variance};
  const T nearer = mean + sum_row<T>(n, [=](auto i) { return x[i] - mean; }) / static_cast<T>(n);
  return {nearer, variance_around(nearer)};
}

// y and, per row, the mean and the variance in `stats` (rows, 2).
template <class T>
void forward_rows(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const LayerNormOptions& options, Tensor& y, Tensor& stats) {
  const std::int64_t n = x.dim(-1);
  const T* in = x.data<T>();
  const T* w = weight.defined() ? weight.data<T>() : nullptr;
  const T* b = bias.defined() ? bias.data<T>() : nullptr;
  T *out = y.mutable_data<T>(), *stat = stats.mutable_data<T>();
  parallel_for(stats.dim(0), row_grain(n), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = in + r * n;
      T* to = out + r * n;
      const Moments<T> of_row = moments(row, n, static_cast<T>(degrees(n, options)));
      stat[2 * r] = of_row.mean;
      stat[2 * r + 1] = of_row.variance;
      scale_row(row, w, b, of_row.mean, inverse_std(of_row.variance, options), n, to);
    }
  });
}

FusedOp::Output normalised(Inputs in, const LayerNormOptions& options) {
  const Tensor& x = in[0];
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  Tensor stats = Tensor::empty({x.shape().with(-1, 1).numel(), 2}, x.dtype());
  dispatch(y.dtype(),
           [&](auto zero) { forward_rows<decltype(zero)>(x, in[1], in[2], options, y, stats); });
  return {y, {stats}};
}

// The statistics of one row that its backward uses.
template <class T>
struct RowStats {
  T mean, rstd, divisor;

  RowStats(const T* stat, std::int64_t n, const LayerNormOptions& options)
      : mean(stat[0]),
        rstd(inverse_std(stat[1], options)),
        divisor(static_cast<T>(degrees(n, options))) {
    // A constant row has no slope: its x̂ is 0.
    if (options.eps_outside) divisor = stat[1] > 0 ? divisor * std::sqrt(stat[1]) * rstd : T{1};
  }
};

// With x̂ = (x − mean)·rstd and g = dy·weight: dx = rstd·(g − mean(g) − x̂·Σ(g·x̂)/divisor). From
// d rstd = −½·rstd³·d var the divisor is the variance's, n or n − 1; with eps outside the root,
// d rstd = −½·rstd²/√var·d var, and it is √var·rstd times that.
// `dw` and `db` get this row's dy·x̂ and dy added.
template <class T>
void backward_row(const T* __restrict dy, const T* __restrict x, const T* __restrict w,
                  const RowStats<T>& stats, std::int64_t n, T* __restrict dx, T* __restrict dw,
                  T* __restrict db) {
  const auto [mean, rstd, divisor] = stats;
  const T sum_g = sum_row<T>(n, [=](auto i) { return dy[i] * w[i]; });
  const T sum_gx = sum_row<T>(n, [=, m = mean](auto i) { return dy[i] * w[i] * (x[i] - m); });
  const T mean_g = sum_g / static_cast<T>(n), mean_gx = sum_gx * rstd / divisor;
  for (std::int64_t i = 0; i < n; ++i) {
    const T normal = (x[i] - mean) * rstd;
    dx[i] = rstd * (dy[i] * w[i] - mean_g - normal * mean_gx);
    dw[i] += dy[i] * normal;
    db[i] += dy[i];
  }
}

template <class T>
void backward_rows(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& stats,
                   const LayerNormOptions& options, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  const std::int64_t n = x.dim(-1);
  const T *d = dy.data<T>(), *in = x.data<T>(), *stat = stats.data<T>();
  const Tensor factors = weight.defined() ? weight : Tensor::ones({n}, x.dtype());
  const T* w = factors.data<T>();
  T* out = dx.mutable_data<T>();
  const auto add_row = [=](std::int64_t r, const std::array<T*, 2>& sums) {
    const RowStats<T> row(stat + 2 * r, n, options);
    backward_row(d + r * n, in + r * n, w, row, n, out + r * n, sums[0], sums[1]);
  };
  const auto sums = sums_over_rows<T, 2>(stats.dim(0), n, add_row);
  dweight = sums[0];
  dbias = sums[1];
}

Tensor layer_norm_reference(Inputs in, const LayerNormOptions& o) {
  const Tensor &x = in[0], &weight = in[1], &bias = in[2];
  const Tensor variance = without_overflow(var(x, {-1}, o.unbiased, true));
  // The root of 0 has no slope; the least variance of f32 that is not 0 stands in for it.
  constexpr double least = 1e-36, most = std::numeric_limits<float>::max();
  const Tensor spread =
      o.eps_outside ? sqrt(clamp(variance, least, most)) + o.eps : sqrt(variance + o.eps);
  Tensor y = (x - mean(x, {-1}, true)) / spread;
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

OnnxValue onnx_layer_norm(OnnxCall& c, const LayerNormOptions& o) {
  if (o.unbiased || o.eps_outside || c.in(1).empty()) {
    return c.composed([&](Inputs in) { return layer_norm_reference(in, o); });
  }
  return c("LayerNormalization", c.inputs(), {{"epsilon", o.eps}});
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const LayerNormOptions& options) {
  check(x.rank() >= 1, "[layer_norm] a scalar has no dimension to normalise");
  check_numbers("LayerNormOptions", {{"eps", options.eps, at_least(0)}});
  for (const Tensor& t : {weight, bias}) {
    check(!t.defined() || t.shape() == Shape{x.dim(-1)},
          "[layer_norm] weight or bias {} does not fit x {}", t.defined() ? t.shape() : Shape{},
          x.shape());
  }
  return apply_fused(
      {x, weight, bias},
      {.name = "layer_norm",
       .backward_name = "layer_norm_backward",
       .forward = [options](Inputs in, const Needs&) { return normalised(in, options); },
       .backward = [options](const Tensor& dy, Inputs in, Inputs notes, const Needs&) -> Grads {
         Tensor dx = Tensor::empty(in[0].shape(), in[0].dtype()), dweight, dbias;
         dispatch(dx.dtype(), [&](auto zero) {
           backward_rows<decltype(zero)>(dy, in[0], in[1], notes[0], options, dx, dweight, dbias);
         });
         return {dx, in[1].defined() ? dweight : Tensor(), in[2].defined() ? dbias : Tensor()};
       },
       .reference = [options](Inputs in) { return layer_norm_reference(in, options); },
       .cheap = true,
       .onnx = [options](OnnxCall& c) { return onnx_layer_norm(c, options); }});
}

}  // namespace tapegrad
