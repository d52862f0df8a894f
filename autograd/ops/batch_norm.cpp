#include <cmath>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {
namespace {

// x (N, C, …) as `batch` times `channels` planes.
struct Planes {
  std::int64_t batch, channels, size;

  explicit Planes(const Tensor& x) : batch(x.dim(0)), channels(x.dim(1)), size(1) {
    for (int i = 2; i < x.rank(); ++i) size *= x.dim(i);
  }
  std::int64_t count() const { return batch * size; }  // elements of a channel
  std::int64_t grain() const { return 1 + kElementGrain / (4 * count() + 1); }
  // Calls run(offset) for the plane of each image.
  template <class F>
  void each(std::int64_t channel, const F& run) const {
    for (std::int64_t n = 0; n < batch; ++n) run((n * channels + channel) * size);
  }
  // Σ term(i) over the elements i of a channel.
  template <class F>
  double sum(std::int64_t channel, const F& term) const {
    double total = 0;
    each(channel, [&](std::int64_t offset) {
      total += sum_row<double>(size, [&](std::int64_t i) { return term(offset + i); });
    });
    return total;
  }
};

// Mean and biased variance of each channel, (C) f64: in f32 the mean's rounding would show in the
// differences of a channel that hardly varies.
struct Statistics {
  Tensor mean, var;
};

Statistics statistics_of(const Tensor& x) {
  const Planes planes(x);
  Statistics s{Tensor::zeros({planes.channels}, DType::f64),
               Tensor::zeros({planes.channels}, DType::f64)};
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    auto *means = s.mean.mutable_data<double>(), *vars = s.var.mutable_data<double>();
    const auto count = static_cast<double>(std::max<std::int64_t>(1, planes.count()));  // no NaN
    parallel_for(planes.channels, planes.grain(), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const double m = planes.sum(c, [=](auto i) { return static_cast<double>(in[i]); }) / count;
        means[c] = m;
        vars[c] = planes.sum(c, [=](auto i) {
          const double d = static_cast<double>(in[i]) - m;
          return d * d;
        }) / count;
      }
    });
  });
  return s;
}

// The elements of weight or bias: null where there is none.
template <class T>
const T* elements(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}
// Theirs of a channel, 1 and 0 where there are none.
template <class T>
double element(const T* all, std::int64_t channel, double absent) {
  return all != nullptr ? static_cast<double>(all[channel]) : absent;
}

Tensor normalised(Inputs in, const Statistics& s, double eps) {
  const Tensor& x = in[0];
  const Planes planes(x);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *weight = elements<T>(in[1]), *bias = elements<T>(in[2]);
    T* to = y.mutable_data<T>();
    parallel_for(planes.channels, planes.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const double rstd = 1 / std::sqrt(s.var.data<double>()[c] + eps);
        const auto mean = static_cast<T>(s.mean.data<double>()[c]);
        const auto scale = static_cast<T>(rstd * element(weight, c, 1));
        const auto shift = static_cast<T>(element(bias, c, 0));
        planes.each(c, [=](std::int64_t k) {
          for (std::int64_t i = k; i < k + planes.size; ++i) {
            to[i] = (from[i] - mean) * scale + shift;
          }
        });
      }
    });
  });
  return y;
}

// With x̂ = (x − mean)·rstd: dweight = Σ dy·x̂, dbias = Σ dy and dx = weight·rstd·(dy − mean(dy) −
// x̂·mean(dy·x̂)), without the means where the statistics are constants.
Grads backward(const Tensor& dy, Inputs in, const Statistics& s, double eps, bool constant) {
  const Tensor& x = in[0];
  const Planes planes(x);
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  Tensor dweight = Tensor::empty({planes.channels}, x.dtype());
  Tensor dbias = Tensor::empty({planes.channels}, x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data<T>(), *d = dy.data<T>(), *weight = elements<T>(in[1]);
    T *to = dx.mutable_data<T>(), *dw = dweight.mutable_data<T>(), *db = dbias.mutable_data<T>();
    const auto count = static_cast<double>(constant ? 0 : planes.count());
    parallel_for(planes.channels, planes.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const double m = s.mean.data<double>()[c];
        const double rstd = 1 / std::sqrt(s.var.data<double>()[c] + eps);
        const double sum = planes.sum(c, [=](auto i) { return static_cast<double>(d[i]); });
        const double sum_x = rstd * planes.sum(c, [=](auto i) {
          return static_cast<double>(d[i]) * (static_cast<double>(from[i]) - m);
        });
        db[c] = static_cast<T>(sum);
        dw[c] = static_cast<T>(sum_x);
        const auto mean = static_cast<T>(m);
        const auto scale = static_cast<T>(rstd * element(weight, c, 1));
        const auto offset = static_cast<T>(count > 0 ? sum / count : 0);
        const auto slope = static_cast<T>(count > 0 ? sum_x / count * rstd : 0);
        planes.each(c, [=](std::int64_t k) {
          for (std::int64_t i = k; i < k + planes.size; ++i) {
            to[i] = scale * (d[i] - offset - (from[i] - mean) * slope);
          }
        });
      }
    });
  });
  return {dx, in[1].defined() ? dweight : Tensor(), in[2].defined() ? dbias : Tensor()};
}

// t (C) in the shape that broadcasts to x.
Tensor beside(const Tensor& t, const Tensor& x) {
  Shape shape{x.dim(1)};
  for (int i = 2; i < x.rank(); ++i) shape.push_back(1);
  return reshape(t, shape);
}

Tensor with_affine(const Tensor& normal, const Tensor& weight, const Tensor& bias) {
  const Tensor y = weight.defined() ? normal * beside(weight, normal) : normal;
  return bias.defined() ? y + beside(bias, y) : y;
}

Tensor reference(Inputs in, const Statistics& given, double eps) {
  const Tensor& x = in[0];
  if (given.mean.defined()) {
    const Tensor m = beside(given.mean.to(x.dtype()), x), v = beside(given.var.to(x.dtype()), x);
    return with_affine((x - m) / sqrt(v + eps), in[1], in[2]);
  }
  std::vector<int> dims(static_cast<std::size_t>(x.rank() - 1));
  std::iota(dims.begin(), dims.end(), 1);
  dims.front() = 0;
  const Tensor v = var(x, dims, false, true);
  return with_affine((x - mean(x, dims, true)) / sqrt(v + eps), in[1], in[2]);
}

void check_channels(std::string_view op, const Tensor& x,
                    std::initializer_list<Tensor> of_channels) {
  check(x.rank() >= 2, "[{}] x must be (N, C, …), not {}", op, x.shape());
  for (const Tensor& t : of_channels) {
    if (!t.defined()) continue;
    check(t.shape() == Shape{x.dim(1)}, "[{}] {} does not fit the channels of x {}", op, t.shape(),
          x.shape());
    check(t.dtype() == x.dtype(), "[{}] dtypes differ: {} and {}", op, name_of(x.dtype()),
          name_of(t.dtype()));
  }
}

// With given statistics, or with x's own, which `found` gets.
Tensor batch_norm_op(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     const Statistics& given, const std::shared_ptr<Statistics>& found = nullptr) {
  check_numbers("batch_norm", {{"eps", eps, at_least(0)}});
  const bool constant = given.mean.defined();
  return apply_fused({x, weight, bias},
                     {.name = "batch_norm",
                      .backward_name = "batch_norm_backward",
                      .forward = [=](Inputs in, const Needs&) -> FusedOp::Output {
                        const Statistics s = constant ? given : statistics_of(in[0]);
                        if (found != nullptr && !found->mean.defined()) *found = s;
                        return {normalised(in, s, eps), {s.mean, s.var}};
                      },
                      .backward =
                          [=](const Tensor& dy, Inputs in, Inputs notes, const Needs&) {
                            return backward(dy, in, {notes[0], notes[1]}, eps, constant);
                          },
                      .reference = [=](Inputs in) { return reference(in, given, eps); },
                      .cheap = true});
}

}  // namespace

BatchNormResult batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_channels("batch_norm", x, {weight, bias});
  const auto count = static_cast<double>(Planes(x).count());
  check(count != 1, "[batch_norm] one element in each channel of x {} has no variance", x.shape());
  const auto found = std::make_shared<Statistics>();
  const Tensor y = batch_norm_op(x, weight, bias, eps, {}, found);
  const TapePause unrecorded;
  return {y, found->mean.to(x.dtype()), (found->var * (count / (count - 1))).to(x.dtype())};
}

Tensor batch_norm_with(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                       const Tensor& bias, double eps) {
  check_channels("batch_norm", x, {mean, var, weight, bias});
  check(mean.defined() && var.defined(), "[batch_norm] the mean or the variance is missing");
  check_untracked("batch_norm_with", "mean", mean);
  check_untracked("batch_norm_with", "var", var);
  return batch_norm_op(x, weight, bias, eps, {mean.to(DType::f64), var.to(DType::f64)});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  check_channels("group_norm", x, {weight, bias});
  check(groups > 0 && x.dim(1) % groups == 0, "[group_norm] {} groups do not divide x {} evenly",
        groups, x.shape());
  const Planes planes(x);
  const Tensor rows = reshape(x, {planes.batch * groups, planes.channels / groups * planes.size});
  return with_affine(reshape(layer_norm(rows, {}, {}, {.eps = eps}), x.shape()), weight, bias);
}

}  // namespace tapegrad
