#include "tapegrad/nn/losses/target_log_probs.h"

#include "tapegrad/autograd/ops/head_ops.h"

namespace tapegrad::nn {

Tensor target_log_probs(const Decoder& model, const Tensor& states, const Tensor& targets) {
  constexpr std::int32_t ignored = -1;
  return linear_log_probs(states, model.lm_head.weight, targets, ignored,
                          model.config.logit_softcap);
}

}  // namespace tapegrad::nn
