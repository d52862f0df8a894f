#include <limits>

#include "tapegrad/autograd/ops/composed_ops.h"

namespace tapegrad {

Tensor leaky_relu(const Tensor& x, double slope) { return where(x > 0.0, x, x * slope); }

Tensor elu(const Tensor& x, double alpha) {
  // Where x is above 0, the exponential is that of 0, so that none overflows into the gradient.
  // NaN counts as above 0, as in PyTorch.
  const Tensor below = x <= 0.0;
  return where(below, expm1(masked_fill(x, logical_not(below), 0)) * alpha, x);
}

// detach() ends the gradient where x is cut.
Tensor hardtanh(const Tensor& x, double low, double high) {
  check(low <= high, "[hardtanh] low {} is above high {}", low, high);
  return where(logical_or(x <= low, x >= high), clamp(x.detach(), low, high), x);
}

Tensor hardsigmoid(const Tensor& x) {
  const auto line = [](const Tensor& v) { return (v + 3.0) / 6.0; };
  const Tensor inside = logical_and(x > -3.0, x < 3.0);
  return where(inside, line(x), line(clamp(x.detach(), -3, 3)));
}

Tensor normalize(const Tensor& x, double p, int dim, double eps) {
  return x / clamp(norm(x, p, {dim}, true), eps, std::numeric_limits<double>::infinity());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim, double eps) {
  broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  return sum(normalize(a, 2, dim, eps) * normalize(b, 2, dim, eps), {dim});
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  broadcast_shapes("pairwise_distance", a.shape(), b.shape());
  return norm(a - b + eps, p, {-1}, keepdim);
}

}  // namespace tapegrad
