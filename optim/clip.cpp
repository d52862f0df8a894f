#include "tapegrad/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

template <class T>
std::vector<double> square_sums_of(const T* g, std::int64_t n) {
  const std::int64_t chunks = (n + kSquareChunk - 1) / kSquareChunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const T* part = g + c * kSquareChunk;
      sums[static_cast<std::size_t>(c)] =
          sum_row<double>(std::min(kSquareChunk, n - c * kSquareChunk), [=](std::int64_t i) {
            return static_cast<double>(part[i]) * static_cast<double>(part[i]);
          });
    }
  });
  return sums;
}

// Replaces each element g of the gradients by change(g), in place.
template <class Change>
void change_gradients(const NamedTensors& parameters, const Change& change) {
  for (const auto& [name, t] : parameters) {
    Tensor grad = t.grad();
    if (!grad.defined()) continue;
    dispatch(grad.dtype(), [&](auto zero) {
      auto* g = grad.mutable_data<decltype(zero)>();
      parallel_for(grad.numel(), kSquareChunk, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) g[i] = change(g[i]);
      });
    });
  }
}

}  // namespace

// The chunks are fixed, so that the norm does not depend on the number of threads.
std::vector<double> square_sums(const Tensor& gradient) {
  return dispatch(gradient.dtype(), [&](auto zero) {
    return square_sums_of(gradient.data<decltype(zero)>(), gradient.numel());
  });
}

double grad_norm(const NamedTensors& parameters) {
  double sum = 0;
  for (const auto& [name, t] : parameters) {
    const Tensor grad = t.grad();
    if (!grad.defined()) continue;
    const std::vector<double> sums = square_sums(grad);
    sum += std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  return std::sqrt(sum);
}

Clipping measure_clipping(const NamedTensors& parameters, double max_norm) {
  return clipping_of(grad_norm(parameters), max_norm);
}

Clipping clipping_of(double norm, double max_norm) {
  check(max_norm >= 0, "max_norm must be at least 0, not {}", max_norm);
  check(std::isfinite(norm),
        "the gradient norm is {}: the step was not made. Lower the learning rate{} or warm up "
        "longer. A tape with check_finite (--check-finite) names the op that made the first NaN or "
        "infinity",
        std::isnan(norm) ? "not a number" : "infinite",
        max_norm == 0 ? ", clip the gradients" : "");
  return {norm, max_norm == 0 ? 1 : std::min(1.0, max_norm / (norm + 1e-6))};
}

double clip_grad_norm(const NamedTensors& parameters, double max_norm) {
  const auto [norm, factor] = measure_clipping(parameters, max_norm);
  if (factor == 1) return norm;
  change_gradients(parameters,
                   [factor = factor](auto g) { return g * static_cast<decltype(g)>(factor); });
  return norm;
}

void clip_grad_value(const NamedTensors& parameters, double clip_value) {
  check(clip_value >= 0, "clip_value must be at least 0, not {}", clip_value);
  change_gradients(parameters, [clip_value](auto g) {
    const auto bound = static_cast<decltype(g)>(clip_value);
    return std::clamp(g, -bound, bound);
  });
}

}  // namespace tapegrad::optim
