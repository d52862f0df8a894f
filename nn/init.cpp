#include "tapegrad/nn/init.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

namespace tapegrad::nn {
namespace {

template <class T>
std::span<T> elements(Tensor& t) {
  return {t.mutable_data<T>(), static_cast<std::size_t>(t.numel())};
}

// U(−bound, bound).
void draw_uniform(Tensor& t, Rng& rng, double bound) {
  dispatch(t.dtype(), [&](auto zero) { rng.uniform(elements<decltype(zero)>(t), -bound, bound); });
}

// √(2/(fan_in + fan_out)).
double xavier_std(std::string_view name, const Shape& shape) {
  check(shape.rank() >= 2, "[{}] the fans of a parameter {} are unknown: it must be (out, in, …)",
        name, shape);
  std::int64_t fans = shape[0] + shape[1];
  for (int i = 2; i < shape.rank(); ++i) fans *= shape[i];
  return std::sqrt(2.0 / static_cast<double>(fans));
}

Init constant(double value) {
  return [value](Tensor& t, Rng&) { t = Tensor::full(t.shape(), value, t.dtype()); };
}

}  // namespace

Init zeros() { return constant(0); }
Init ones() { return constant(1); }

Init normal(double mean, double std) {
  return [=](Tensor& t, Rng& rng) {
    dispatch(t.dtype(), [&](auto zero) { rng.normal(elements<decltype(zero)>(t), mean, std); });
  };
}

Init kaiming_uniform(std::int64_t fan_in) {
  return [=](Tensor& t, Rng& rng) {
    const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
    draw_uniform(t, rng, bound);
  };
}

// In the order of PyTorch's roundings.
Init xavier_uniform(double gain) {
  return [=](Tensor& t, Rng& rng) {
    draw_uniform(t, rng, std::sqrt(3.0) * (gain * xavier_std("xavier_uniform", t.shape())));
  };
}

Init xavier_normal(double gain) {
  return [=](Tensor& t, Rng& rng) {
    normal(0, gain * xavier_std("xavier_normal", t.shape()))(t, rng);
  };
}

void refill(Tensor t, const Init& init, Rng& rng) {
  Tensor values = Tensor::empty(t.shape(), t.dtype());
  init(values, rng);
  dispatch(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(values.data<T>(), t.numel(), t.mutable_data<T>());
  });
}

}  // namespace tapegrad::nn
