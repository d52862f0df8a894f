#include "tapegrad/nn/init.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad::nn {
namespace {

template <class T>
std::span<T> elements(Tensor& t) {
  return {t.mutable_data<T>(), static_cast<std::size_t>(t.numel())};
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

Init uniform(double low, double high) {
  check_numbers("uniform", {{"low", low, kAnyNumber}, {"high", high, at_least(low)}});
  return [=](Tensor& t, Rng& rng) {
    dispatch(t.dtype(), [&](auto zero) { rng.uniform(elements<decltype(zero)>(t), low, high); });
  };
}

Init kaiming_uniform(std::int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return uniform(-bound, bound);
}

Init zero_row(const Init& init, std::optional<std::int64_t> row) {
  if (!row) return init;
  return [=](Tensor& t, Rng& rng) {
    init(t, rng);
    dispatch(t.dtype(), [&](auto zero) {
      const std::int64_t channels = t.dim(1);
      std::fill_n(t.mutable_data<decltype(zero)>() + *row * channels, channels, zero);
    });
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
