#include <string_view>

#include "tapegrad/autograd/composed_ops.h"

namespace tapegrad {
namespace {

Tensor reduced_loss(std::string_view op, const Tensor& losses, Reduction reduction) {
  check(reduction != Reduction::batchmean, "[{}] there is no batchmean of this loss", op);
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

Tensor distance(std::string_view op, const Tensor& x, const Tensor& target) {
  check(x.shape() == target.shape(), "[{}] shapes differ: {} and {}", op, x.shape(),
        target.shape());
  return abs(x - target);
}

}  // namespace

Tensor leaky_relu(const Tensor& x, double slope) { return where(x > 0.0, x, x * slope); }

Tensor elu(const Tensor& x, double alpha) {
  // Where x is above 0, the exponential is that of 0, so that none overflows into the gradient.
  const Tensor above = x > 0.0;
  return where(above, x, expm1(masked_fill(x, above, 0)) * alpha);
}

Tensor mish(const Tensor& x) { return x * tanh(softplus(x)); }

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return reduced_loss("l1_loss", distance("l1_loss", x, target), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction) {
  check(beta > 0, "[smooth_l1_loss] beta must be above 0, not {}", beta);
  const Tensor d = distance("smooth_l1_loss", x, target);
  // Of d that is large, the square would overflow into the gradient.
  const Tensor near = clamp(d, 0, beta);
  const Tensor losses = where(d < beta, near * near * (0.5 / beta), d - 0.5 * beta);
  return reduced_loss("smooth_l1_loss", losses, reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  check(delta > 0, "[huber_loss] delta must be above 0, not {}", delta);
  const Tensor d = distance("huber_loss", x, target);
  const Tensor near = clamp(d, 0, delta);
  const Tensor losses = where(d < delta, near * near * 0.5, (d - 0.5 * delta) * delta);
  return reduced_loss("huber_loss", losses, reduction);
}

}  // namespace tapegrad
