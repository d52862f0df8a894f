#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/nn/init.h"

// Initialisers that depend on a parameter's shape, and those that draw more than once.

namespace tapegrad::nn {
namespace {

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(std::string_view name, const Shape& shape) {
  check(shape.rank() >= 2, "[{}] the fans of a parameter {} are unknown: it must be (out, in, …)",
        name, shape);
  std::int64_t places = 1;
  for (int i = 2; i < shape.rank(); ++i) places *= shape[i];
  return {static_cast<double>(shape[1] * places), static_cast<double>(shape[0] * places)};
}

// √(2/(fan_in + fan_out)).
double xavier_std(std::string_view name, const Shape& shape) {
  const Fans fans = fans_of(name, shape);
  return std::sqrt(2.0 / (fans.in + fans.out));
}

// gain/√fan.
double kaiming_std(std::string_view name, const Shape& shape, const KaimingOptions& options) {
  const Fans fans = fans_of(name, shape);
  return calculate_gain(options.nonlinearity, options.a) /
         std::sqrt(options.mode == FanMode::fan_in ? fans.in : fans.out);
}

// Makes rows orthonormal, one after the other, by Gram–Schmidt. Twice is as orthogonal as rounding
// permits (Giraud et al., "The loss of orthogonality in the Gram–Schmidt orthogonalization
// process", 2005).
void orthonormalise_each(const Tensor& rows) {
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    const Tensor before = rows.rows(0, i);
    Tensor row = rows.rows(i, i + 1);
    for (int pass = 0; i > 0 && pass < 2; ++pass) {
      assign(row, row - matmul(matmul(row, before, {.transpose_b = true}), before));
    }
    const double length = norm(row).item();
    if (length > 0) assign(row, row / length);
  }
}

// Orthonormal rows that span, one after the other, what the rows (n, m) span, n <= m, each on its
// row's side: Qᵀ in the QR decomposition of the transpose whose R has a positive diagonal. Most of
// the work are products of blocks of rows with all before.
Tensor orthonormal_rows(const Tensor& rows) {
  constexpr std::int64_t kBlock = 32;
  const Tensor q = rows.to(DType::f64).clone();
  for (std::int64_t begin = 0; begin < q.dim(0); begin += kBlock) {
    const Tensor before = q.rows(0, begin);
    Tensor block = q.rows(begin, std::min(begin + kBlock, q.dim(0)));
    for (int pass = 0; pass < 2; ++pass) {
      if (begin > 0) {
        assign(block, block - matmul(matmul(block, before, {.transpose_b = true}), before));
      }
      orthonormalise_each(block);
    }
  }
  return q;
}

double normal_cdf(double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; }

// True if normal draws are kept often enough; otherwise, uniform ones are cheaper.
bool draws_normals(const TruncNormalOptions& o) {
  return normal_cdf((o.b - o.mean) / o.std) - normal_cdf((o.a - o.mean) / o.std) > 0.3;
}

// The draws of PyTorch 2.14, all elements anew until all are kept. Normal ones are kept within
// [a, b]; where these would be few, uniform ones in proportion to their density.
template <class T>
void draw_truncated(std::span<T> out, Rng& rng, const TruncNormalOptions& o) {
  const bool normals = draws_normals(o);
  const T low = static_cast<T>(o.a), high = static_cast<T>(o.b);
  const double peak = (std::clamp(o.mean, o.a, o.b) - o.mean) / o.std;
  const T log_peak = static_cast<T>(-0.5 * peak * peak);
  std::vector<T> draws(out.size()), chances(normals ? 0 : out.size());
  std::vector<bool> pending(out.size(), true);
  for (bool any = true; any;) {
    any = false;
    if (normals) {
      rng.normal(draws, o.mean, o.std);
    } else {
      rng.uniform(draws, o.a, o.b);
      rng.uniform(chances, 0, 1);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!pending[i]) continue;
      out[i] = draws[i];
      const T z = (draws[i] - static_cast<T>(o.mean)) / static_cast<T>(o.std);
      pending[i] = normals ? draws[i] < low || draws[i] > high
                           : std::log(chances[i]) > z * z * T{-0.5} - log_peak;
      any = any || pending[i];
    }
  }
}

}  // namespace

// In the order of PyTorch's roundings.
Init xavier_uniform(double gain) {
  return [=](Tensor& t, Rng& rng) {
    const double bound = std::sqrt(3.0) * (gain * xavier_std("xavier_uniform", t.shape()));
    uniform(-bound, bound)(t, rng);
  };
}

Init xavier_normal(double gain) {
  return [=](Tensor& t, Rng& rng) {
    normal(0, gain * xavier_std("xavier_normal", t.shape()))(t, rng);
  };
}

double calculate_gain(Gain nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Gain::linear:
    case Gain::sigmoid:
      return 1;
    case Gain::tanh:
      return 5.0 / 3;
    case Gain::relu:
      return std::sqrt(2.0);
    case Gain::leaky_relu:
      return std::sqrt(2.0 / (1 + negative_slope * negative_slope));
    case Gain::selu:
      return 0.75;
  }
  return 1;
}

Init kaiming_uniform(const KaimingOptions& options) {
  check_numbers("KaimingOptions", {{"a", options.a, kAnyNumber}});
  return [=](Tensor& t, Rng& rng) {
    const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform", t.shape(), options);
    if (t.numel() > 0) uniform(-bound, bound)(t, rng);
  };
}

Init kaiming_normal(const KaimingOptions& options) {
  check_numbers("KaimingOptions", {{"a", options.a, kAnyNumber}});
  return [=](Tensor& t, Rng& rng) {
    const double std = kaiming_std("kaiming_normal", t.shape(), options);
    if (t.numel() > 0) normal(0, std)(t, rng);
  };
}

Init orthogonal(double gain) {
  check_numbers("orthogonal", {{"gain", gain, kAnyNumber}});
  return [=](Tensor& t, Rng& rng) {
    fans_of("orthogonal", t.shape());
    if (t.numel() == 0) return;
    normal(0, 1)(t, rng);
    const Tensor matrix = reshape(t, {t.dim(0), -1});
    const bool wide = matrix.dim(0) < matrix.dim(1);
    const Tensor rows = orthonormal_rows(wide ? matrix : transpose(matrix, 0, 1)).to(t.dtype());
    assign(t, reshape(wide ? rows : transpose(rows, 0, 1), t.shape()) * gain);
  };
}

Init trunc_normal(const TruncNormalOptions& options) {
  check_numbers("TruncNormalOptions", {{"mean", options.mean, kAnyNumber},
                                       {"std", static_cast<float>(options.std), above(0)},
                                       {"a", options.a, kAnyNumber},
                                       {"b", options.b, at_least(options.a)}});
  // In units of std: the density falls over the width 1 at the mean, and over 1/distance beyond.
  const double nearest = std::clamp(options.mean, options.a, options.b);
  const double distance = std::max(1.0, std::abs(nearest - options.mean) / options.std);
  const double width = std::max(1.0, (options.b - options.a) / options.std);
  check(draws_normals(options) || distance * width <= 1000,
        "[trunc_normal] hardly a draw of N({}, {}²) lies in [{}, {}]", options.mean, options.std,
        options.a, options.b);
  return [options](Tensor& t, Rng& rng) {
    dispatch(t.dtype(), [&](auto zero) {
      using T = decltype(zero);
      draw_truncated(std::span(t.mutable_data<T>(), static_cast<std::size_t>(t.numel())), rng,
                     options);
    });
  };
}

}  // namespace tapegrad::nn
