// Losses composed of other ops: none has a derivative of its own.

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/loss_rows.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/internal/number_rules.h"

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

// x − target, 0 where it is far: of what is large, the square would overflow into the gradient. NaN
// counts as near, so that its gradient is NaN. With |x − target|, the second derivative would be 0
// where the two are equal.
Tensor near_target(const Tensor& x, const Tensor& target, const Tensor& far) {
  return masked_fill(x - target, far, 0);
}

// The targets of two classes, 1 and −1, which broadcast to the losses.
void check_signs(std::string_view op, const Tensor& target, const Shape& losses) {
  check(broadcast_shapes(op, losses, target.shape()) == losses,
        "[{}] target {} does not broadcast to {}", op, target.shape(), losses);
  for (std::int64_t i = 0; i < target.numel(); ++i) {
    check(target.at(i) == 1 || target.at(i) == -1,
          "[{}] target {} at position {} is neither 1 nor -1", op, target.at(i), i);
  }
}

// Targets of classes, each with the weight of its class. Ignored targets have class 0 and weight 0.
struct WeightedTargets {
  Tensor ids, ignored;
  Tensor weights;  // f64
};

// `weight` (V) may be undefined, which means ones.
WeightedTargets weighted_targets(std::string_view op, const Tensor& targets, std::int64_t classes,
                                 const Tensor& weight, std::int32_t ignore_index) {
  check_class_weight(op, weight, classes);
  const Targets known = checked_targets(op, targets, classes, ignore_index);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> ignored;
  std::vector<double> weights;
  for (const std::int32_t id : known.ids.values<std::int32_t>()) {
    const bool ignore = id == ignore_index;
    ids.push_back(ignore ? 0 : id);
    ignored.push_back(ignore);
    weights.push_back(ignore ? 0 : weight.defined() ? weight.at(id) : 1);
  }
  const Shape& shape = targets.shape();
  return {Tensor::from(ids, shape), Tensor::from(ignored, shape), Tensor::from(weights, shape)};
}

// −weight·log_probs[target], 0 where the target is ignored.
Tensor target_losses(const Tensor& log_probs, const WeightedTargets& t) {
  const Tensor picked = gather(log_probs, t.ids, -1);
  return masked_fill(-picked, t.ignored, 0) * t.weights.to(log_probs.dtype());
}

// The mean divides by the sum of the weights.
Tensor reduced_by_weight(std::string_view op, const Tensor& losses, const WeightedTargets& t,
                         Reduction reduction) {
  if (reduction != Reduction::mean) return reduced_loss(op, losses, reduction);
  return sum(losses) / sum(t.weights).item();
}

// max(0, z), with a derivative of 0 at 0 and, unlike relu, at NaN.
Tensor above_margin(const Tensor& z) { return where(z > 0, z, relu(z.detach())); }

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return reduced_loss("l1_loss", distance("l1_loss", x, target), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction) {
  check_numbers("smooth_l1_loss", {{"beta", beta, above(0)}});
  const Tensor d = distance("smooth_l1_loss", x, target);
  const Tensor far = d >= beta, near = near_target(x, target, far);
  const Tensor losses = where(far, d - 0.5 * beta, near * near * (0.5 / beta));
  return reduced_loss("smooth_l1_loss", losses, reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  check_numbers("huber_loss", {{"delta", delta, above(0)}});
  const Tensor d = distance("huber_loss", x, target);
  const Tensor far = d >= delta, near = near_target(x, target, far);
  const Tensor losses = where(far, (d - 0.5 * delta) * delta, near * near * 0.5);
  return reduced_loss("huber_loss", losses, reduction);
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NllLossOptions& options) {
  check(log_probs.rank() >= 1 && targets.shape() == log_probs.shape().without(-1),
        "[nll_loss] targets {} do not fit log-probabilities {}", targets.shape(),
        log_probs.shape());
  const WeightedTargets t = weighted_targets("nll_loss", targets, log_probs.dim(-1), options.weight,
                                             options.ignore_index);
  return reduced_by_weight("nll_loss", target_losses(log_probs, t), t, options.reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  check_numbers("cross_entropy", {{"label_smoothing", smoothing, from_to(0, 1)}});
  const Tensor& weight = options.weight;
  if (is_float(targets.dtype())) {
    check(options.ignore_index < 0, "[cross_entropy] probabilities have no class {} to ignore",
          options.ignore_index);
    return reduced_loss("cross_entropy", probability_losses(logits, targets, weight, smoothing),
                        options.reduction);
  }
  if (!weight.defined() && smoothing == 0 && options.reduction == Reduction::mean) {
    return cross_entropy(logits, targets, options.ignore_index);
  }
  check(logits.rank() >= 1 && targets.shape() == logits.shape().without(-1),
        "[cross_entropy] targets {} do not fit logits {}", targets.shape(), logits.shape());
  const std::int64_t classes = logits.dim(-1);
  const WeightedTargets t =
      weighted_targets("cross_entropy", targets, classes, weight, options.ignore_index);
  const Tensor log_probs = log_softmax(logits);
  Tensor losses = target_losses(log_probs, t);
  if (smoothing > 0) {
    const Tensor of_classes =
        weight.defined() ? log_probs * weight.to(log_probs.dtype()) : log_probs;
    const Tensor of_all = masked_fill(-sum(of_classes, {-1}), t.ignored, 0);
    losses = losses * (1 - smoothing) + of_all * (smoothing / static_cast<double>(classes));
  }
  return reduced_by_weight("cross_entropy", losses, t, options.reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            Reduction reduction) {
  check_numbers("hinge_embedding_loss", {{"margin", margin, kAnyNumber}});
  check_untracked("hinge_embedding_loss", "target", target);
  check_signs("hinge_embedding_loss", target, x.shape());
  return reduced_loss("hinge_embedding_loss", where(target > 0, x, above_margin(margin - x)),
                      reduction);
}

Tensor margin_ranking_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                           double margin, Reduction reduction) {
  const std::string_view op = "margin_ranking_loss";
  check_numbers(op, {{"margin", margin, kAnyNumber}});
  check(first.shape() == second.shape(), "[{}] shapes differ: {} and {}", op, first.shape(),
        second.shape());
  check_signs(op, target, first.shape());
  return reduced_loss(op, above_margin(-target * (first - second) + margin), reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction) {
  const std::string_view op = "cosine_embedding_loss";
  check_numbers(op, {{"margin", margin, kAnyNumber}});
  check(a.shape() == b.shape() && a.rank() >= 1,
        "[{}] shapes differ, or have no dimension: {} and {}", op, a.shape(), b.shape());
  check_untracked(op, "target", target);
  check_signs(op, target, a.shape().without(-1));
  // x/√(Σx² + 1e-12): the square of one more element.
  const auto direction = [](const Tensor& x) {
    const Tensor small = Tensor::full(x.shape().with(-1, 1), 1e-6, x.dtype());
    return x / norm(concat({x, small}, -1), 2, {-1}, true);
  };
  const Tensor cosine = sum(direction(a) * direction(b), {-1});
  return reduced_loss(op, where(target > 0, 1.0 - cosine, above_margin(cosine - margin)),
                      reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  check(anchor.shape() == positive.shape() && anchor.shape() == negative.shape(),
        "[triplet_margin_loss] shapes differ: {}, {} and {}", anchor.shape(), positive.shape(),
        negative.shape());
  check_numbers("TripletMarginOptions", {{"margin", options.margin, above(0)},
                                         {"p", options.p, above(0)},
                                         {"eps", options.eps, at_least(0)}});
  const auto distance_of = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, options.p, options.eps);
  };
  Tensor far = distance_of(anchor, negative);
  if (options.swap) far = minimum(far, distance_of(positive, negative));
  const Tensor losses = above_margin(distance_of(anchor, positive) - far + options.margin);
  return reduced_loss("triplet_margin_loss", losses, options.reduction);
}

}  // namespace tapegrad
