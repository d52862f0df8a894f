#include "tapegrad/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/optim/lr_schedulers.h"

namespace tapegrad::optim {
namespace {

OneCycleLR one_cycle(const Schedule& s) {
  return {.max_lr = s.learning_rate,
          .total_steps = s.lr_decay_iters,
          .pct_start = static_cast<double>(s.warmup_iters) / static_cast<double>(s.lr_decay_iters)};
}

// The rate of a linear, cosine or wsd schedule in iteration i behind the warm-up.
double decayed(const Schedule& s, std::int64_t i) {
  using Kind = Schedule::Kind;
  if (i > s.lr_decay_iters) return s.min_lr;
  const std::int64_t from = s.kind == Kind::wsd ? s.decay_begin() : s.warmup_iters;
  if (from == s.lr_decay_iters || (s.kind == Kind::wsd && i <= from)) return s.learning_rate;
  const double ratio = static_cast<double>(i - from) / static_cast<double>(s.lr_decay_iters - from);
  const double share =
      s.kind == Kind::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * ratio)) : 1 - ratio;
  return s.min_lr + share * (s.learning_rate - s.min_lr);
}

}  // namespace

double Schedule::operator()(std::int64_t iteration) const {
  const std::int64_t i = iteration - begin, after = i - warmup_iters;
  if (kind == Kind::one_cycle && lr_decay_iters > 0) return one_cycle(*this)(i);
  if (after < 0) {
    return learning_rate * static_cast<double>(i + 1) / static_cast<double>(warmup_iters + 1);
  }
  switch (kind) {
    case Kind::constant:
    case Kind::one_cycle:
      return learning_rate;
    case Kind::step:
      return StepLR{learning_rate, step_size, gamma}(after);
    case Kind::multistep:
      return MultiStepLR{learning_rate, milestones, gamma}(i);
    case Kind::exponential:
      return ExponentialLR{learning_rate, gamma}(after);
    case Kind::cosine_with_restarts:
      return CosineAnnealingWarmRestarts{learning_rate, step_size, t_mult, min_lr}(after);
    case Kind::linear:
    case Kind::cosine:
    case Kind::wsd:
      break;
  }
  return decayed(*this, i);
}

std::int64_t Schedule::decay_begin() const {
  const double decay = std::round(decay_share * static_cast<double>(lr_decay_iters));
  return std::max(warmup_iters, lr_decay_iters - static_cast<std::int64_t>(decay));
}

bool Schedule::ends() const {
  return kind == Kind::linear || kind == Kind::cosine || kind == Kind::wsd ||
         kind == Kind::one_cycle;
}

double DecayFactor::operator()(std::int64_t iteration) const {
  check_numbers("DecayFactor", {{"end", end, at_least(0)}});
  if (end == 1) return 1;
  const std::int64_t made = std::min(iteration - begin, steps);
  return 1 + (end - 1) * (steps == 0 ? 1 : static_cast<double>(made) / static_cast<double>(steps));
}

void Schedule::validate() const {
  check_numbers("Schedule", {{"learning_rate", learning_rate, at_least(0)},
                             {"min_lr", min_lr, at_least(0)},
                             {"decay_share", decay_share, from_to(0, 1)},
                             {"gamma", gamma, at_least(0)},
                             {"step_size", static_cast<double>(step_size), above(0)},
                             {"t_mult", static_cast<double>(t_mult), at_least(1)},
                             {"warmup_iters", static_cast<double>(warmup_iters), at_least(0)}});
  for (const std::int64_t milestone : milestones) {
    check_numbers("Schedule", {{"milestones", static_cast<double>(milestone), at_least(0)}});
  }
  const bool reaches_min_lr =
      kind == Kind::cosine_with_restarts || (ends() && kind != Kind::one_cycle);
  check(!reaches_min_lr || min_lr <= learning_rate, "min_lr {} is above the learning rate {}",
        min_lr, learning_rate);
  check(!ends() || lr_decay_iters >= warmup_iters,
        "lr_decay_iters {} comes before the warm-up of {} iterations ends", lr_decay_iters,
        warmup_iters);
}

}  // namespace tapegrad::optim
