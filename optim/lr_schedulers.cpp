#include "tapegrad/optim/lr_schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad::optim {

double StepLR::operator()(std::int64_t iteration) const {
  check_numbers("StepLR", {{"learning_rate", learning_rate, at_least(0)},
                           {"step_size", static_cast<double>(step_size), above(0)},
                           {"gamma", gamma, at_least(0)}});
  return learning_rate * std::pow(gamma, static_cast<double>(iteration / step_size));
}

double MultiStepLR::operator()(std::int64_t iteration) const {
  check_numbers("MultiStepLR",
                {{"learning_rate", learning_rate, at_least(0)}, {"gamma", gamma, at_least(0)}});
  double passed = 0;
  for (const std::int64_t milestone : milestones) {
    check_numbers("MultiStepLR", {{"milestones", static_cast<double>(milestone), at_least(0)}});
    if (milestone <= iteration) ++passed;
  }
  return learning_rate * std::pow(gamma, passed);
}

double ExponentialLR::operator()(std::int64_t iteration) const {
  check_numbers("ExponentialLR",
                {{"learning_rate", learning_rate, at_least(0)}, {"gamma", gamma, at_least(0)}});
  return learning_rate * std::pow(gamma, static_cast<double>(iteration));
}

double CosineAnnealingWarmRestarts::operator()(std::int64_t iteration) const {
  check_numbers("CosineAnnealingWarmRestarts",
                {{"learning_rate", learning_rate, at_least(0)},
                 {"t_0", static_cast<double>(t_0), above(0)},
                 {"t_mult", static_cast<double>(t_mult), at_least(1)},
                 {"eta_min", eta_min, at_least(0)},
                 {"iteration", static_cast<double>(iteration), at_least(0)}});
  // In double, because t_0·t_multⁿ may be more than an integer holds.
  double at = static_cast<double>(t_mult == 1 ? iteration % t_0 : iteration);
  double cycle = static_cast<double>(t_0);
  while (at >= cycle) {
    at -= cycle;
    cycle *= static_cast<double>(t_mult);
  }
  return eta_min + (learning_rate - eta_min) * (1 + std::cos(std::numbers::pi * at / cycle)) / 2;
}

double OneCycleLR::operator()(std::int64_t iteration) const {
  check_numbers("OneCycleLR", {{"max_lr", max_lr, at_least(0)},
                               {"total_steps", static_cast<double>(total_steps), above(0)},
                               {"pct_start", pct_start, from_to(0, 1)},
                               {"div_factor", div_factor, above(0)},
                               {"final_div_factor", final_div_factor, above(0)}});
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
  check_numbers("ReduceLROnPlateau", {{"lr", lr, at_least(0)},
                                      {"factor", factor, between(0, 1)},
                                      {"patience", static_cast<double>(patience), at_least(0)},
                                      {"threshold", threshold, at_least(0)},
                                      {"cooldown", static_cast<double>(cooldown), at_least(0)},
                                      {"min_lr", min_lr, at_least(0)},
                                      {"eps", eps, at_least(0)}});
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
