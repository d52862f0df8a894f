#pragma once

#include "tapegrad/autograd/kernels/vector_math.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// What the losses over classes have in common.

struct Targets {
  Tensor ids;  // (N) i32
  std::int32_t ignore_index;
  std::int64_t count;  // of those that are not ignored
};

// Flattens the targets of `op` and checks them against the number of classes.
Targets checked_targets(std::string_view op, const Tensor& targets, std::int64_t classes,
                        std::int32_t ignore_index);

// −log softmax(logits)[target], from the logits' sum; 0 for an ignored target.
template <class T>
double loss_of_row(const T* logits, const ExpSum<T>& sum, std::int32_t target,
                   std::int32_t ignore_index) {
  if (target == ignore_index) return 0;
  const double below_top = static_cast<double>(sum.top) - static_cast<double>(logits[target]);
  return below_top + std::log(static_cast<double>(sum.total));
}

// out = (softmax(logits) − onehot(target))·scale, or zeros for an ignored target; may be in place.
template <class T>
void loss_gradient_row(const T* logits, const ExpSum<T>& sum, std::int32_t target,
                       std::int32_t ignore_index, T scale, std::int64_t n, T* out) {
  if (target == ignore_index) {
    std::fill_n(out, n, T{0});
    return;
  }
  const T top = sum.top, factor = scale / sum.total;
  for (std::int64_t i = 0; i < n; ++i) out[i] = fast_exp(logits[i] - top) * factor;
  out[target] -= scale;
}

}  // namespace tapegrad
