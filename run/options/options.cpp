#include "tapegrad/run/options/options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/meetings/hold_meeting.h"
#include "tapegrad/run/options/keep_rule.h"

namespace tapegrad::run {
namespace {

using Kind = optim::Schedule::Kind;

std::vector<std::int64_t> steps_of(const std::vector<std::string>& milestones) {
  std::vector<std::int64_t> steps;
  for (const std::string& text : milestones) {
    const auto step = number_of<std::int64_t>(text);
    check(step && *step >= 0, "milestones: '{}' is not a step", text);
    steps.push_back(*step);
  }
  return steps;
}

// What a schedule cannot be without.
void check_schedule(const OptimizerOptions& o) {
  const bool changes = o.schedule == Kind::step || o.schedule == Kind::cosine_with_restarts;
  check(!changes || o.step_size, "schedule {} needs a step_size", name_of_enum(o.schedule));
  check(o.schedule != Kind::multistep || !o.milestones.empty(),
        "schedule multistep needs milestones, the steps at which the learning rate changes");
  check(o.schedule != Kind::exponential || o.gamma || (o.min_lr > 0 && o.min_lr <= o.learning_rate),
        "schedule exponential needs a gamma, or a min_lr above 0 and up to the learning_rate {}, "
        "not {}",
        o.learning_rate, o.min_lr);
}

}  // namespace

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
  check(dtype != TrainDtype::automatic, "dtype must not be auto when the model is made");
  if (dtype == TrainDtype::int8) return Precision::int8;
  return dtype == TrainDtype::bf16 ? Precision::bf16 : Precision::full;
}

optim::GroupRules OptimizerOptions::default_rules() {
  return {.settings = optim::OptimizerSettings().set("beta2", 0.99), .weight_decay = 0.1};
}

optim::Schedule OptimizerOptions::learning_rates() const {
  return {.kind = schedule,
          .learning_rate = learning_rate,
          .min_lr = min_lr,
          .begin = schedule_begin,
          .warmup_iters = warmup(),
          .lr_decay_iters = decay_end() - schedule_begin,
          .decay_share = decay_share,
          .gamma = gamma.value_or(default_gamma()),
          .step_size = step_size.value_or(1),
          .milestones = steps_of(milestones),
          .t_mult = t_mult};
}

optim::DecayFactor OptimizerOptions::decay_factor() const {
  const double begin = rules.weight_decay, end = weight_decay_end.value_or(begin);
  return {.end = end == begin ? 1 : end / begin,
          .begin = schedule_begin,
          .steps = decay_end() - schedule_begin};
}

std::optional<optim::EMAOptions> OptimizerOptions::averages() const {
  if (swa_start) return optim::EMAOptions{.mean = true, .start = *swa_start};
  if (ema) return optim::EMAOptions{.decay = *ema};
  return std::nullopt;
}

std::int64_t OptimizerOptions::averaged_steps() const {
  return ema ? std::llround(1 / (1 - *ema)) : 1;
}

optim::Sharing OptimizerOptions::sharing() const {
  optim::Sharing sharing{.sent = comm_dtype, .shard = shard, .local = {}};
  if (local_steps) sharing.local = {*local_steps, outer_learning_rate, outer_momentum};
  if (sharing.local) sharing.local->groups = groups;
  if (local_steps && meet) {
    sharing.local->place = optim::MeetingPlace{
        *meet, group.value_or(""), optim::group_names(of.value_or("")), meet_key.value_or("")};
  }
  return sharing;
}

std::int64_t OptimizerOptions::group_count() const {
  if (!meet && !group && !of) return 1;
  check(local_steps && group && of,
        "groups that meet through files need local_steps, the steps between two meetings, the name "
        "of this group (group) and those of all groups (of)");
  const std::vector<std::string> names = optim::group_names(*of);
  check(std::count(names.begin(), names.end(), *group) == 1,
        "group {} is not among those that meet (of): {}", *group, *of);
  return std::ssize(names);
}

std::int64_t OptimizerOptions::meeting_from(std::int64_t step) const {
  const std::int64_t every = local_steps.value_or(1);
  const std::int64_t left = (every - step % every) % every;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();  // no run comes so far
  return step > most - left ? most : step + left;
}

std::int64_t OptimizerOptions::default_warmup() const {
  constexpr std::int64_t share = 10;
  const std::int64_t steps = lr_decay_iters.value_or(max_iters) - schedule_begin;
  if (schedule == Kind::one_cycle) return std::max<std::int64_t>(3 * steps / share, 0);
  return std::clamp(steps / share, std::int64_t{0}, most_warmup);
}

double OptimizerOptions::default_gamma() const {
  const std::int64_t steps = decay_end() - schedule_begin - warmup();
  if (schedule != Kind::exponential) return optim::Schedule().gamma;
  return steps > 0 ? std::pow(min_lr / learning_rate, 1 / static_cast<double>(steps)) : 1;
}

std::int64_t OptimizerOptions::decay_end() const {
  return lr_decay_iters.value_or(std::max(max_iters, schedule_begin + warmup()));
}

void OptimizerOptions::check_meeting_place() const {
  check(meet || !(group || of || meet_key),
        "group, of and meet_key are for groups that meet through files: meet says in which folder");
}

void OptimizerOptions::validate() const {
  check_rules(*this);
  check_schedule(*this);
  const optim::Schedule rates = learning_rates();
  // Steps count from the beginning of the run, also where its schedule was begun anew.
  const std::int64_t warm = schedule_begin + warmup();
  check(!rates.ends() || decay_end() >= warm,
        "lr_decay_iters {} comes before step {}, at which the warm-up ends: it has {} steps{}",
        decay_end(), warm, warmup(),
        schedule_begin > 0 ? fmt::format(" and begins at step {}", schedule_begin) : "");
  check(rules.weight_decay > 0 || weight_decay_end.value_or(0) == 0,
        "weight_decay_end needs a weight_decay above 0 to begin with");
  check(!ema || *ema > 0,
        "ema 0 would keep the weights of the last step alone, as a run without it does: a decay is "
        "between 0 and 1, such as 0.999");
  check(!ema || !swa_start,
        "ema and swa_start exclude each other: one is a moving average, the other the mean of all "
        "weights from an update on");
  const char* averaging = swa_start ? "swa_start" : "ema";
  check(!averages() || !local_steps,
        "{} and local_steps exclude each other: between two meetings, each process has weights of "
        "its own, and an average of them is nobody's",
        averaging);
  check(
      shard != optim::Shard::parameters || !local_steps,
      "shard parameters and local_steps exclude each other: between two meetings, each process has "
      "weights of its own, and needs all of them");
  check(shard != optim::Shard::parameters || !averages(),
        "shard parameters and {} exclude each other: averages are kept whole in each process",
        averaging);
  check(!local_steps || !skip_outliers,
        "skip_outliers and local_steps exclude each other: a step that one process skips would be "
        "made by others");
  check(local_steps || comm_dtype != optim::CommDType::int8,
        "comm_dtype int8 is for what local_steps changed, and not for gradients");
  check(!groups || (local_steps && !of),
        "groups is for processes that make local_steps and meet by MPI, not through files (meet)");
  const std::int64_t shares = groups.value_or(1) * group_count();
  check(gradient_accumulation_steps % shares == 0,
        "gradient_accumulation_steps {}: {} groups cannot share out so many batches of a step "
        "evenly",
        gradient_accumulation_steps, shares);
  rates.validate();
  rules.validate();
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
