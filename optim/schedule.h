#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
struct Schedule {
  enum class Kind { constant, linear, cosine, wsd };

  Kind kind = Kind::cosine;
  double learning_rate = 1e-3;
  double min_lr = 1e-4;
  std::int64_t begin = 0;
  std::int64_t warmup_iters = 0;
  std::int64_t lr_decay_iters = 0;
  double decay_share = 0.4;  // of wsd, from 0 to 1

  double operator()(std::int64_t iteration) const;
  std::int64_t decay_begin() const;  // the last iteration of wsd at learning_rate, from `begin`
  void validate() const;             // throws Error for invalid values
};

// A factor of all weight decays: 1 at the schedule's first iteration, `end` after `steps` more, and
// a straight line between them.
struct DecayFactor {
  double end = 1;
  std::int64_t begin = 0, steps = 0;

  double operator()(std::int64_t iteration) const;
};

inline constexpr std::string_view kScheduleNames[] = {"constant", "linear", "cosine", "wsd"};
inline std::span<const std::string_view> names_of(Schedule::Kind) { return kScheduleNames; }

}  // namespace tapegrad::optim
