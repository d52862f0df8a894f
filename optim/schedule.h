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
// 1 − r (linear). A constant schedule warms up in the same way and stays at learning_rate.
struct Schedule {
  enum class Kind { constant, linear, cosine };

  Kind kind = Kind::cosine;
  double learning_rate = 1e-3;
  double min_lr = 1e-4;
  std::int64_t begin = 0;
  std::int64_t warmup_iters = 0;
  std::int64_t lr_decay_iters = 0;

  double operator()(std::int64_t iteration) const;
  void validate() const;  // throws Error for invalid values
};

inline constexpr std::string_view kScheduleNames[] = {"constant", "linear", "cosine"};
inline std::span<const std::string_view> names_of(Schedule::Kind) { return kScheduleNames; }

}  // namespace tapegrad::optim
