#include "tapegrad/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad::optim {

double Schedule::operator()(std::int64_t iteration) const {
  const std::int64_t i = iteration - begin;
  if (i < warmup_iters) {
    return learning_rate * static_cast<double>(i + 1) / static_cast<double>(warmup_iters + 1);
  }
  if (kind == Kind::constant) return learning_rate;
  if (i > lr_decay_iters) return min_lr;
  const std::int64_t from = kind == Kind::wsd ? decay_begin() : warmup_iters;
  if (from == lr_decay_iters || (kind == Kind::wsd && i <= from)) return learning_rate;
  const double ratio = static_cast<double>(i - from) / static_cast<double>(lr_decay_iters - from);
  const double share =
      kind == Kind::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * ratio)) : 1 - ratio;
  return min_lr + share * (learning_rate - min_lr);
}

std::int64_t Schedule::decay_begin() const {
  const double decay = std::round(decay_share * static_cast<double>(lr_decay_iters));
  return std::max(warmup_iters, lr_decay_iters - static_cast<std::int64_t>(decay));
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
                             {"warmup_iters", static_cast<double>(warmup_iters), at_least(0)}});
  check(kind == Kind::constant || min_lr <= learning_rate,
        "min_lr {} is above the learning rate {}", min_lr, learning_rate);
  check(kind == Kind::constant || lr_decay_iters >= warmup_iters,
        "lr_decay_iters {} comes before the warm-up of {} iterations ends", lr_decay_iters,
        warmup_iters);
}

}  // namespace tapegrad::optim
