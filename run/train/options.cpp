#include "tapegrad/run/train/options.h"

#include <algorithm>

#include "tapegrad/run/folder/kept_models.h"

namespace tapegrad::run {

void FolderOptions::validate() const {
  check(!init_from.empty(), "--init-from: the path is empty");
  check(!resumes() || !out_dir.empty(), "--init-from resume needs --out-dir");
  check(!resumes() || !overwrite, "--init-from resume and --overwrite contradict each other");
  check(!checkpoint || init_from != kScratch,
        "--checkpoint needs --init-from: it names weights to begin with");
  check(!resumes() || !checkpoint || *checkpoint == kBest || *checkpoint == kLast,
        "--init-from resume goes on from the checkpoint last or best, not {}: --init-from {} "
        "--checkpoint {} begins a new run with those weights",
        checkpoint.value_or(""), out_dir, checkpoint.value_or(""));
}

Precision OptimizerOptions::precision() const {
  check(dtype != TrainDtype::automatic, "dtype must be f32 or bf16 when the model is made");
  return dtype == TrainDtype::bf16 ? Precision::bf16 : Precision::full;
}

optim::OptimizerSettings OptimizerOptions::default_settings() {
  return optim::OptimizerSettings().set("beta2", 0.99);
}

optim::GroupRules OptimizerOptions::rules() const {
  return {.optimizer = optimizer,
          .settings = settings,
          .weight_decay = weight_decay,
          .decay_all = decay_all,
          .lr_scale = lr_scale,
          .decay = decay,
          .optimizer_for = optimizer_for};
}

namespace {

optim::Schedule schedule_of(const OptimizerOptions& o) {
  return {.kind = o.schedule,
          .learning_rate = o.learning_rate,
          .min_lr = o.min_lr,
          .warmup_iters = o.warmup_iters,
          .lr_decay_iters = o.decay_end() - o.schedule_begin};
}

}  // namespace

double OptimizerOptions::lr_at(std::int64_t iteration) const {
  return schedule_of(*this)(iteration - schedule_begin);
}

std::int64_t OptimizerOptions::decay_end() const {
  return lr_decay_iters.value_or(std::max(max_iters, schedule_begin + warmup_iters));
}

void OptimizerOptions::validate() const {
  check_rules(*this);
  schedule_of(*this).validate();
  rules().validate();
}

bool EvaluationOptions::evaluates_at(std::int64_t iteration) const {
  return iteration >= eval_offset && (iteration - eval_offset) % eval_interval == 0;
}

bool EvaluationOptions::saves_at(std::int64_t iteration) const {
  return checkpoint_interval ? iteration % *checkpoint_interval == 0 : evaluates_at(iteration);
}

bool EvaluationOptions::stops_early(std::int64_t best, std::int64_t iteration) const {
  if (!early_stop) return false;
  const auto evaluations = [&](std::int64_t until) {
    return until < eval_offset ? 0 : (until - eval_offset) / eval_interval + 1;
  };
  return evaluations(iteration) - evaluations(best) >= *early_stop;
}

void EvaluationOptions::validate() const {
  check_rules(*this);
  try {
    keep_rule(keep);
  } catch (const Error& error) {
    fail("--keep: {}", error.what());
  }
}

}  // namespace tapegrad::run
