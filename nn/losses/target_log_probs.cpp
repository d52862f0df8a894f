#include "tapegrad/nn/losses/target_log_probs.h"

#include "tapegrad/autograd/head_ops.h"

namespace tapegrad::nn {

Tensor target_log_probs(const Decoder& model, const Tensor& states, const Tensor& targets) {
  constexpr std::int32_t ignored = -1;
  const Linear& head = model.lm_head;
  const double cap = model.config.logit_softcap;
  if (head.packed != nullptr) {
    return linear_log_probs(states, head.packed_linear(), targets, ignored, cap);
  }
  return linear_log_probs(states, head.weight, targets, ignored, head.precision, cap);
}

}  // namespace tapegrad::nn
