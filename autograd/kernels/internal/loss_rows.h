#pragma once

#include <cmath>

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Helpers that the losses over classes share.

struct Targets {
  Tensor ids;  // (N) i32
  std::int32_t ignore_index;
  std::int64_t count;  // of those that are not ignored
};

// Flattens the targets of `op` and checks them against the number of classes.
Targets checked_targets(std::string_view op, const Tensor& targets, std::int64_t classes,
                        std::int32_t ignore_index);

// Error unless the weights (V) of classes are undefined or as many as these, and no tape tracks
// them.
void check_class_weight(std::string_view op, const Tensor& weight, std::int64_t classes);

// −Σᵥ weight[v]·((1 − smoothing)·q[v] + smoothing/V)·log softmax(logits)[v] of each row, where q
// are probabilities like logits (…, V). `weight` (V) may be undefined, which means ones.
Tensor probability_losses(const Tensor& logits, const Tensor& q, const Tensor& weight = {},
                          double smoothing = 0);

// log softmax(logits (N, V))[target] of each row (N), by primitive ops; 0 where the target is
// ignored.
Tensor target_log_probs_of(const Tensor& logits, const Targets& targets);

// The exponentials of a row of logits less the largest: that of the target, and the sum of all
// others. Where the target is likely, these are all that loss and gradient are made of, and they
// would be rounded away next to the target's 1.
template <class T>
struct TargetSums {
  T top, target, others;

  double total() const { return static_cast<double>(target) + static_cast<double>(others); }
};
template <class T>
TargetSums<T> target_sums(const T* logits, std::int64_t target, std::int64_t n) {
  const T top = max_row(logits, n);
  // The lanes around the target by themselves, so that the loops before and behind stay aligned.
  const std::int64_t first = target / kLanes * kLanes, last = std::min(n, first + kLanes);
  const auto sum = [=](std::int64_t begin, std::int64_t end) {
    return sum_row<T>(end - begin,
                      [=](std::int64_t i) { return fast_exp(logits[begin + i] - top); });
  };
  const T beside = sum_row<T>(last - first, [=](std::int64_t i) {
    return first + i == target ? T{0} : fast_exp(logits[first + i] - top);
  });
  return {top, fast_exp(logits[target] - top), sum(0, first) + beside + sum(last, n)};
}

// −log softmax(logits)[target].
template <class T>
double loss_of_row(const T* logits, const TargetSums<T>& sums, std::int64_t target) {
  const double below_top = static_cast<double>(sums.top) - static_cast<double>(logits[target]);
  return below_top +
         std::log1p(static_cast<double>(sums.others) + (static_cast<double>(sums.target) - 1));
}

// out = (softmax(logits) − onehot(target))·scale; may be in place. The target's element is minus
// the sum of the others, not a difference from 1.
template <class T>
void loss_gradient_row(const T* logits, const TargetSums<T>& sums, std::int64_t target,
                       double scale, std::int64_t n, T* out) {
  const T top = sums.top, factor = static_cast<T>(scale / sums.total());
  for (std::int64_t i = 0; i < n; ++i) out[i] = fast_exp(logits[i] - top) * factor;
  out[target] = -sums.others * factor;
}

}  // namespace tapegrad
