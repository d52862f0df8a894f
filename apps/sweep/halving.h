#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::sweep {

// Successive halving (Jamieson, Talwalkar: Non-stochastic Best Arm Identification and
// Hyperparameter Optimization; AISTATS 2016, arXiv:1502.07943): all runs train a few steps, the
// best of them go on for more, and so on until few train to the end.

// So many runs go on until they have made so many steps, all in all.
struct Rung {
  std::size_t runs;
  std::int64_t steps;  // 0: as many as the options say
};

// The rungs of so many runs, of which the last ones make `steps` steps: each rung has the best
// 1/eta of the runs before it, rounded down, and eta times their steps. No rung has less than one
// step. Needs runs >= 1, steps >= 1, eta >= 2.
std::vector<Rung> halving_rungs(std::size_t runs, std::int64_t steps, int eta);

// The indices of the `count` lowest losses, the lowest one first; of equal ones, the first. A NaN,
// of a run that has failed or is not done, is never among them, so that there may be fewer.
std::vector<std::size_t> lowest(const std::vector<double>& losses, std::size_t count);

}  // namespace tapegrad::sweep
