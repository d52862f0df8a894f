#include "tapegrad/run/options.h"

#include <algorithm>

namespace tapegrad::run {

void FolderOptions::validate() const {
  check(!resumes() || !out_dir.empty(), "--init-from resume needs --out-dir");
  check(!resumes() || !overwrite, "--init-from resume and --overwrite contradict each other");
}

Precision OptimizerOptions::precision() const {
  check(dtype != TrainDtype::automatic, "dtype must be f32 or bf16 when the model is made");
  return dtype == TrainDtype::bf16 ? Precision::bf16 : Precision::full;
}

optim::AdamWOptions OptimizerOptions::adamw() const {
  return {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay, .decay_all = decay_all};
}

optim::Schedule OptimizerOptions::lr_schedule() const {
  return {.kind = schedule,
          .learning_rate = learning_rate,
          .min_lr = min_lr,
          .warmup_iters = warmup_iters,
          .lr_decay_iters = lr_decay_iters.value_or(std::max(max_iters, warmup_iters))};
}

void OptimizerOptions::settle() {
  if (!lr_decay_iters) lr_decay_iters = std::max(max_iters, warmup_iters);
}

void OptimizerOptions::validate() const {
  check_rules(*this);
  lr_schedule().validate();
  optim::AdamW(NamedTensors{}, adamw());  // its constructor checks them
}

bool EvaluationOptions::evaluates_at(std::int64_t iteration) const {
  return iteration >= eval_offset && (iteration - eval_offset) % eval_interval == 0;
}

bool EvaluationOptions::saves_at(std::int64_t iteration) const {
  return checkpoint_interval ? iteration % *checkpoint_interval == 0 : evaluates_at(iteration);
}

}  // namespace tapegrad::run
