#include "tapegrad/nn/init.h"

#include <algorithm>
#include <cmath>

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

Init kaiming_uniform(std::int64_t fan_in) {
  return [=](Tensor& t, Rng& rng) {
    const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
    dispatch(t.dtype(),
             [&](auto zero) { rng.uniform(elements<decltype(zero)>(t), -bound, bound); });
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
