#include "tapegrad/optim/lr_schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/base/error.h"

namespace tapegrad::optim {

double StepLR::operator()(std::int64_t iteration) const {
  check(step_size > 0, "[StepLR] step_size must be above 0, not {}", step_size);
  return learning_rate * std::pow(gamma, static_cast<double>(iteration / step_size));
}

double OneCycleLR::operator()(std::int64_t iteration) const {
  check(total_steps > 0, "[OneCycleLR] total_steps must be above 0, not {}", total_steps);
  check(pct_start >= 0 && pct_start <= 1, "[OneCycleLR] pct_start must be from 0 to 1, not {}",
        pct_start);
  check(div_factor > 0 && final_div_factor > 0,
        "[OneCycleLR] div_factor and final_div_factor must be above 0, not {} and {}", div_factor,
        final_div_factor);
  // The rate at a step, which lies between two iterations in PyTorch, too.
  struct Point {
    double step, lr;
  };
  const double steps = static_cast<double>(total_steps), first = max_lr / div_factor;
  const double peak = pct_start * steps - 1;
  const Point bottom{2 * peak, first}, last{steps - 1, first / final_div_factor};
  const double at = static_cast<double>(std::clamp<std::int64_t>(iteration, 0, total_steps - 1));
  Point from{0, first}, to{peak, max_lr};
  if (at > to.step && three_phase) from = to, to = bottom;
  if (at > to.step) from = to, to = last;
  const double share = to.step == from.step ? 1 : (at - from.step) / (to.step - from.step);
  if (anneal == Anneal::linear) return from.lr + share * (to.lr - from.lr);
  return to.lr + (from.lr - to.lr) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double ReduceLROnPlateau::step(double metric) {
  check(factor > 0 && factor < 1, "[ReduceLROnPlateau] factor must be between 0 and 1, not {}",
        factor);
  const double sign = maximize ? -1 : 1;  // of the direction in which metrics improve
  const double bound = absolute ? best - sign * threshold : best * (1 - sign * threshold);
  if (begun ? sign * metric < sign * bound : !std::isnan(metric)) {
    begun = true;
    best = metric;
    num_bad_epochs = 0;
  } else {
    ++num_bad_epochs;
  }
  if (cooldown_counter > 0) {
    --cooldown_counter;
    num_bad_epochs = 0;
  }
  if (num_bad_epochs > patience) {
    const double reduced = std::max(lr * factor, min_lr);
    if (lr - reduced > eps) lr = reduced;
    cooldown_counter = cooldown;
    num_bad_epochs = 0;
  }
  return lr;
}

}  // namespace tapegrad::optim
