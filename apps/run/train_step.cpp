#include "tapegrad/run/train_step.h"

#include <algorithm>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/optim/clip.h"

namespace tapegrad::run {

Report::Step make_step(const Task& task, const OptimizerOptions& options, double lr,
                       optim::AdamW& adamw, Progress& progress) {
  Report::Step step(lr);
  const double share = 1.0 / static_cast<double>(options.gradient_accumulation_steps);
  for (std::int64_t i = 0; i < options.gradient_accumulation_steps; ++i) {
    Tape tape({.check_finite = options.check_finite, .names = task.params.tensors()});
    const Loss loss = task.loss();
    tape.backward(loss.value, {.seeds = {Tensor::scalar(share, loss.value.dtype())}});
    step.loss += share * loss.value.item();
    step.tokens += loss.tokens;
  }
  const auto [norm, factor] = optim::measure_clipping(task.params.parameters(), options.grad_clip);
  step.norm = norm;
  if (options.skip_outliers) {
    step.loss_z = progress.losses.z_score(step.loss);
    step.norm_z = progress.norms.z_score(step.norm);
    step.skipped = std::max(step.loss_z, step.norm_z) > *options.skip_outliers;
  }
  if (step.skipped) {
    ++progress.skipped;
  } else {
    adamw.step(step.lr, factor);
  }
  adamw.zero_grad();
  return step;
}

}  // namespace tapegrad::run
