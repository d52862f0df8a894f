// Reductions composed of other ops: none has a derivative of its own.

#include <cmath>
#include <cstdint>
#include <vector>

#include "tapegrad/autograd/kernels/axis.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/marked_dims.h"

namespace tapegrad {
namespace {

// f(x) where x is not 0, and 0 without a gradient where it is.
template <class F>
Tensor unless_zero(const Tensor& x, const F& f) {
  const Tensor zero = eq(x, 0);
  return masked_fill(f(masked_fill(x, zero, 1)), zero, 0);
}

}  // namespace

Tensor norm(const Tensor& x, double p, const std::vector<int>& dims, bool keepdim) {
  check(p > 0 && std::isfinite(p),
        "[norm] p must be finite and above 0, not {}: max(abs(x)) is the norm of infinity", p);
  if (p == 1) return sum(abs(x), dims, keepdim);
  if (p == 2) return unless_zero(sum(x * x, dims, keepdim), sqrt);
  const Tensor powers = unless_zero(abs(x), [p](const Tensor& v) { return pow(v, p); });
  return unless_zero(sum(powers, dims, keepdim), [p](const Tensor& v) { return pow(v, 1 / p); });
}

// Halves of the elements are multiplied with each other until one is left. So the gradient of each
// is a product of the others, which is right where one of them is 0.
Tensor prod(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  if (!is_float(x.dtype())) return prod(x.to(DType::f64), dims, keepdim);
  const std::vector<bool> marked = marked_dims("prod", x.shape(), dims);
  const Shape shape = kept_shape(x.shape(), marked, keepdim);
  std::int64_t n = marked_count(x.shape(), marked);
  if (n == 0) return reshape(sum(x, dims) + 1.0, shape);
  std::vector<int> order;
  for (const bool first : {true, false}) {
    for (int i = 0; i < x.rank(); ++i) {
      if (marked[static_cast<std::size_t>(i)] == first) order.push_back(i);
    }
  }
  Tensor y = reshape(permute(x, order), {n, shape.numel()});
  for (; n > 1; n -= n / 2) {
    const std::int64_t half = n / 2;
    const Tensor products = slice(y, 0, 0, half) * slice(y, 0, half, 2 * half);
    y = n % 2 == 0 ? products : concat({products, slice(y, 0, n - 1, n)}, 0);
  }
  return reshape(y, shape);
}

}  // namespace tapegrad
