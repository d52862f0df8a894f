#include "tapegrad/nn/losses/distillation.h"

#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/autograd/tape.h"

namespace tapegrad::nn {

Tensor distillation_loss(const Decoder& model, const Decoder& teacher, const TokenRows& tokens,
                         const Tensor& targets, const DistillationOptions& options, Rng* dropout,
                         std::int32_t ignore_index, RouterLosses* routers) {
  check(model.config.vocab_size == teacher.config.vocab_size,
        "[distillation] the teacher has {} tokens, the model {}", teacher.config.vocab_size,
        model.config.vocab_size);
  Tensor states;  // before the model's, so that the teacher's activations do not lie beside them
  {
    const TapePause pause;
    const Tensor rows = teacher.hidden(tokens);
    states = reshape(rows, {rows.dim(0) * rows.dim(1), rows.dim(2)});
  }
  const Teacher word{.logits =
                         [states, &teacher](std::int64_t first, std::int64_t n) {
                           return teacher.head(states.rows(first, first + n));
                         },
                     .weight = options.weight,
                     .temperature = options.temperature};
  RouterLosses own;
  if (dropout != nullptr && routers == nullptr) routers = &own;
  const Tensor normed = model.hidden(tokens, dropout, dropout == nullptr ? nullptr : routers);
  const Tensor loss = linear_distillation(normed, model.lm_head.weight, targets, word, ignore_index,
                                          model.config.logit_softcap);
  return dropout == nullptr ? loss : routers->with(loss);
}

}  // namespace tapegrad::nn
