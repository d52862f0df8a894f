#pragma once

#include <cstdint>
#include <functional>

#include "tapegrad/autograd/weight.h"

namespace tapegrad {

// Ops of a model's head, a product with a row of weights for each class, whose logits never exist
// as a whole: beside linear_cross_entropy() in ops.h.

// log softmax(x·weightᵀ)[target] of each row: x (…, C), weight (V, C) and targets (…) i32 → (…). It
// is 0 where the target is ignore_index. The cap is that of linear_cross_entropy(). If the weight
// is trained, backward makes the logits again. Error on a target outside [0, V).
Tensor linear_log_probs(const Tensor& x, const Weight& weight, const Tensor& targets,
                        std::int32_t ignore_index = -100, double cap = 0);

// Another model's word on the same rows, from which no gradient flows.
struct Teacher {
  // Its logits of rows [first, first + n), as a tensor (n, V) of x's type: they are asked for some
  // rows at a time.
  std::function<Tensor(std::int64_t first, std::int64_t n)> logits;
  double weight = 0.5;     // of the divergence; that of the cross entropy is 1 − weight
  double temperature = 2;  // of both softmaxes, by which logits are divided
};
// Learning from a teacher (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015,
// section 2): the mean over the targets that count of
//   (1 − weight)·linear_cross_entropy() + weight·temperature²·KL(q ‖ p),
// where q is the teacher's softmax of the row at the temperature, and p that of x·weightᵀ.
// Neither's logits exist as a whole. Errors, too: a weight outside [0, 1], a temperature that is
// not above 0.
Tensor linear_distillation(const Tensor& x, const Weight& weight, const Tensor& targets,
                           const Teacher& teacher, std::int32_t ignore_index = -100,
                           double cap = 0);

}  // namespace tapegrad
