#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// nanoGPT's learning rate of iteration i, counted from `begin`:
//   i < warmup_iters:    learning_rate·(i + 1)/(warmup_iters + 1)
//   i > lr_decay_iters:  min_lr
//   between:             min_lr + c·(learning_rate − min_lr)
// where r = (i − warmup_iters)/(lr_decay_iters − warmup_iters), and c = (1 + cos πr)/2 (cosine) or
// 1 − r (linear). A constant schedule warms up in the same way and stays at learning_rate. "wsd"
// (warm-up, stable, decay: Hu et al., "MiniCPM", arXiv 2404.06395, section 4.2) warms up, stays at
// learning_rate, and falls in a straight line, as nanochat's and modded-nanogpt's, to min_lr in the
// last d = decay_share·lr_decay_iters iterations, rounded, without those of the warm-up:
//   i <= lr_decay_iters − d:  learning_rate
//   after:                    min_lr + (learning_rate − min_lr)·(lr_decay_iters − i)/d
//
// The others are PyTorch's, of lr_schedulers.h. All but one_cycle warm up in the same way and begin
// behind that, but milestones count from `begin`:
//   step:                  StepLR: times gamma every step_size iterations
//   multistep:             MultiStepLR: times gamma at each of the milestones
//   exponential:           ExponentialLR: times gamma in each iteration
//   cosine_with_restarts:  CosineAnnealingWarmRestarts: from learning_rate to min_lr in a cycle of
//                          step_size iterations, each later one t_mult times as long
//   one_cycle:             OneCycleLR of lr_decay_iters iterations, whose way up is the warm-up:
//                          from learning_rate/25 up, and down to learning_rate/250000
struct Schedule {
  enum class Kind {
    constant,
    linear,
    cosine,
    wsd,
    step,
    multistep,
    exponential,
    cosine_with_restarts,
    one_cycle
  };

  Kind kind = Kind::cosine;
  double learning_rate = 1e-3;
  double min_lr = 1e-4;
  std::int64_t begin = 0;
  std::int64_t warmup_iters = 0;
  std::int64_t lr_decay_iters = 0;
  double decay_share = 0.4;  // of wsd, from 0 to 1
  double gamma = 0.1;
  std::int64_t step_size = 1;
  std::vector<std::int64_t> milestones = {};
  std::int64_t t_mult = 1;

  double operator()(std::int64_t iteration) const;
  std::int64_t decay_begin() const;  // the last iteration of wsd at learning_rate, from `begin`
  bool ends() const;                 // true if the rate stays as it is from lr_decay_iters on
  void validate() const;             // throws Error for invalid values
};

// A factor of all weight decays: 1 at the schedule's first iteration, `end` after `steps` more, and
// a straight line between them.
struct DecayFactor {
  double end = 1;
  std::int64_t begin = 0, steps = 0;

  double operator()(std::int64_t iteration) const;
};

inline constexpr std::string_view kScheduleNames[] = {
    "constant", "linear",    "cosine",      "wsd",
    "step",     "multistep", "exponential", "cosine_with_restarts",
    "one_cycle"};
inline std::span<const std::string_view> names_of(Schedule::Kind) { return kScheduleNames; }

}  // namespace tapegrad::optim
