#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// Learning rates for loops of one's own, as torch.optim.lr_scheduler computes them: pass what they
// return to OptimizerState::step. Runs have theirs in schedule.h. Error for options that mean
// nothing.

// learning_rate·gamma^⌊iteration/step_size⌋.
struct StepLR {
  double learning_rate = 1e-3;
  std::int64_t step_size = 1;
  double gamma = 0.1;

  double operator()(std::int64_t iteration) const;
};

// learning_rate·gamma^n, where n is the number of milestones that are not above the iteration. One
// that is there twice counts twice; their order does not matter.
struct MultiStepLR {
  double learning_rate = 1e-3;
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;

  double operator()(std::int64_t iteration) const;
};

// learning_rate·gamma^iteration.
struct ExponentialLR {
  double learning_rate = 1e-3;
  double gamma = 0.9;

  double operator()(std::int64_t iteration) const;
};

// Half cosines one after the other (Loshchilov & Hutter, "SGDR", arXiv 1608.03983, equation 5):
// eta_min + (learning_rate − eta_min)·(1 + cos(π·i/n))/2 in iteration i of a cycle of n. The first
// cycle has t_0 iterations, each later one t_mult times as many as the one before it.
struct CosineAnnealingWarmRestarts {
  double learning_rate = 1e-3;
  std::int64_t t_0 = 1;
  std::int64_t t_mult = 1;
  double eta_min = 0;

  double operator()(std::int64_t iteration) const;  // Error below iteration 0
};

// One cycle (Smith & Topin, "Super-Convergence", arXiv 1708.07120): from max_lr/div_factor up to
// max_lr in the first pct_start of the iterations, then down to max_lr/div_factor/final_div_factor
// in iteration total_steps − 1, and there from then on. With three_phase, the way down reaches
// max_lr/div_factor as fast as the way up left it, before it goes on to the end.
struct OneCycleLR {
  enum class Anneal { cosine, linear };

  double max_lr = 1e-2;
  std::int64_t total_steps = 1;
  double pct_start = 0.3;
  Anneal anneal = Anneal::cosine;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;

  double operator()(std::int64_t iteration) const;
};

// Multiplies lr by `factor` when a metric, such as the loss of validation, has not improved for
// more than `patience` calls. A metric improves if it is below best·(1 − threshold), or best −
// threshold if `absolute`; with `maximize`, above best·(1 + threshold) or best + threshold. NaN is
// no improvement. Bad metrics do not count in the `cooldown` calls after a change. A checkpoint
// needs lr and what is below the options.
struct ReduceLROnPlateau {
  double lr = 1e-3;  // the rate now
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  bool absolute = false;
  bool maximize = false;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;  // lr stays if it would change by no more

  bool begun = false;
  double best = 0;
  std::int64_t num_bad_epochs = 0, cooldown_counter = 0;

  // Takes the next metric and returns the rate from then on.
  double step(double metric);
};

}  // namespace tapegrad::optim
