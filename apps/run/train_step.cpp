#include "tapegrad/run/train_step.h"

#include "tapegrad/autograd/tape.h"
#include "tapegrad/optim/clip.h"

namespace tapegrad::run {

Report::Step make_step(const Task& task, const OptimizerOptions& options, double lr,
                       optim::AdamW& adamw) {
  Report::Step step(lr);
  const double share = 1.0 / static_cast<double>(options.gradient_accumulation_steps);
  for (std::int64_t i = 0; i < options.gradient_accumulation_steps; ++i) {
    Tape tape({.check_finite = options.check_finite, .names = task.params.parameters()});
    const Loss loss = task.loss();
    tape.backward(loss.value, {.seeds = {Tensor::scalar(share, loss.value.dtype())}});
    step.loss += share * loss.value.item();
    step.tokens += loss.tokens;
  }
  const auto [norm, factor] = optim::measure_clipping(task.params.parameters(), options.grad_clip);
  step.norm = norm;
  adamw.step(step.lr, factor);
  adamw.zero_grad();
  return step;
}

}  // namespace tapegrad::run
