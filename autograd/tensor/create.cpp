// Tensors that are made from a rule or from a random generator.

#include <cmath>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/random.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kGrain = 32768;

// t[i] = value(i), for any dtype.
template <class F>
void fill(Tensor& t, const F& value) {
  const auto fill_as = [&](auto* out) {
    parallel_for(t.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      using T = std::remove_pointer_t<decltype(out)>;
      for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(value(i));
    });
  };
  dispatch_all(t.dtype(), [&](auto zero) { fill_as(t.mutable_data<decltype(zero)>()); });
}

// Hands the elements of a new tensor to draw(), as a span of floats or doubles.
template <class Draw>
Tensor drawn(std::string_view name, const Shape& shape, DType dtype, const Draw& draw) {
  check(is_float(dtype), "[{}] random numbers are f32 or f64, not {}", name, name_of(dtype));
  Tensor t = Tensor::empty(shape, dtype);
  if (in_dry_run() && !dry_run_draws()) return t;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (in_dry_run()) {  // t may have no memory
      std::vector<T> unused(static_cast<std::size_t>(t.numel()));
      return draw(std::span<T>(unused));
    }
    draw(std::span<T>(t.mutable_data<T>(), static_cast<std::size_t>(t.numel())));
  });
  return t;
}

}  // namespace

Tensor Tensor::arange(double begin, double end, double step, DType dtype) {
  check(std::isfinite(begin) && std::isfinite(end) && std::isfinite(step),
        "[arange] begin {}, end {} and step {} must be finite", begin, end, step);
  check(step != 0, "[arange] the step is 0");
  check((step > 0) == (begin <= end) || begin == end,
        "[arange] steps of {} do not lead from {} to {}", step, begin, end);
  const double count = std::ceil((end - begin) / step);
  check(count <= 0x1p44, "[arange] from {} to {} in steps of {} is too long", begin, end, step);
  const auto n = static_cast<std::int64_t>(count);
  const double last = begin + step * static_cast<double>(n - 1);
  const bool truths = std::min(begin, last) >= 0 && std::max(begin, last) <= 1;
  check(
      n == 0 || (holds(dtype, begin) && holds(dtype, last) && (dtype != DType::boolean || truths)),
      "[arange] {} does not hold {} to {}", name_of(dtype), begin, last);
  Tensor t = empty({n}, dtype);
  fill(t, [=](std::int64_t i) { return begin + static_cast<double>(i) * step; });
  return t;
}

Tensor Tensor::linspace(double first, double last, std::int64_t count, DType dtype) {
  check(std::isfinite(first) && std::isfinite(last),
        "[linspace] first {} and last {} must be finite", first, last);
  check(count >= 0, "[linspace] {} numbers", count);
  check(is_float(dtype), "[linspace] the numbers are f32 or f64, not {}", name_of(dtype));
  check_holds("linspace", dtype, first);
  check_holds("linspace", dtype, last);
  Tensor t = empty({count}, dtype);
  const double step = (last - first) / static_cast<double>(std::max<std::int64_t>(1, count - 1));
  // From the nearer end, so that both are exact.
  fill(t, [=](std::int64_t i) {
    return i < (count + 1) / 2 ? first + step * static_cast<double>(i)
                               : last - step * static_cast<double>(count - 1 - i);
  });
  return t;
}

Tensor Tensor::eye(std::int64_t n, std::int64_t columns, DType dtype) {
  Tensor t = empty({n, columns}, dtype);
  fill(t, [=](std::int64_t i) { return i / columns == i % columns; });
  return t;
}

Tensor Tensor::randn(const Shape& shape, Rng& rng, DType dtype) {
  return drawn("randn", shape, dtype, [&](auto out) { rng.normal(out, 0, 1); });
}

Tensor Tensor::uniform(const Shape& shape, Rng& rng, double low, double high, DType dtype) {
  return drawn("uniform", shape, dtype, [&](auto out) { rng.uniform(out, low, high); });
}

}  // namespace tapegrad
