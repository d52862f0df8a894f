#include "tapegrad/run/options/options.h"

#include <algorithm>

#include "tapegrad/run/options/keep_rule.h"

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
          .cautious_decay = cautious_decay,
          .lr_scale = lr_scale,
          .decay = decay,
          .optimizer_for = optimizer_for};
}

namespace {

optim::Schedule schedule_of(const OptimizerOptions& o) {
  return {.kind = o.schedule,
          .learning_rate = o.learning_rate,
          .min_lr = o.min_lr,
          .warmup_iters = o.warmup(),
          .lr_decay_iters = o.decay_end() - o.schedule_begin,
          .decay_share = o.decay_share};
}

}  // namespace

double OptimizerOptions::lr_at(std::int64_t iteration) const {
  return schedule_of(*this)(iteration - schedule_begin);
}

double OptimizerOptions::decay_factor_at(std::int64_t iteration) const {
  if (!weight_decay_end) return 1;
  const std::int64_t steps = decay_end() - schedule_begin;
  const std::int64_t made = std::min(iteration - schedule_begin, steps);
  const double share = steps == 0 ? 1 : static_cast<double>(made) / static_cast<double>(steps);
  return 1 + share * (*weight_decay_end / weight_decay - 1);
}

std::int64_t OptimizerOptions::default_warmup() const {
  constexpr std::int64_t share = 10;
  const std::int64_t steps = lr_decay_iters.value_or(max_iters) - schedule_begin;
  return std::clamp(steps / share, std::int64_t{0}, most_warmup);
}

std::int64_t OptimizerOptions::decay_end() const {
  return lr_decay_iters.value_or(std::max(max_iters, schedule_begin + warmup()));
}

void OptimizerOptions::validate() const {
  check_rules(*this);
  // Steps count from the beginning of the run, also where its schedule was begun anew.
  const std::int64_t warm = schedule_begin + warmup();
  check(schedule == optim::Schedule::Kind::constant || decay_end() >= warm,
        "lr_decay_iters {} comes before step {}, at which the warm-up ends: it has {} steps{}",
        decay_end(), warm, warmup(),
        schedule_begin > 0 ? fmt::format(" and begins at step {}", schedule_begin) : "");
  check(!weight_decay_end || weight_decay > 0,
        "weight_decay_end needs a weight_decay above 0 to begin with");
  schedule_of(*this).validate();
  rules().validate();
}

bool EvaluationOptions::evaluates_at(std::int64_t iteration) const {
  return iteration >= eval_offset && (iteration - eval_offset) % eval_interval == 0;
}

bool EvaluationOptions::saves_at(std::int64_t iteration) const {
  return checkpoint_interval ? iteration % *checkpoint_interval == 0 : evaluates_at(iteration);
}

std::int64_t EvaluationOptions::evaluations_before(std::int64_t iteration) const {
  return iteration <= eval_offset ? 0 : (iteration - 1 - eval_offset) / eval_interval + 1;
}

bool EvaluationOptions::stops_early(std::int64_t best, std::int64_t iteration) const {
  return early_stop &&
         evaluations_before(iteration + 1) - evaluations_before(best + 1) >= *early_stop;
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
