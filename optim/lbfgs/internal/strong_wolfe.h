#pragma once

#include <cstdint>
#include <functional>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::optim {

// The loss at x + t·d, for a line search along d.
struct LinePoint {
  double t, loss;
  double slope;  // the derivative of the loss by t
  Tensor gradient;
};

struct LineSearchLimits {
  std::int64_t max_iter;
  double tolerance_change;  // the search ends where no parameter would change by more
  double largest;           // the largest |element| of d
};

// A point that satisfies the strong Wolfe conditions: the loss is below start.loss +
// 1e-4·t·start.slope, and |slope| at most 0.9·|start.slope| (Nocedal & Wright, "Numerical
// Optimization", 2006, algorithms 3.5 and 3.6). Without one within the limits, the best point that
// was found, or `start`. `t` is tried first. The points are those of PyTorch's search, but where
// the loss is NaN: there, this one goes back.
LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       double t, const LineSearchLimits& limits);

}  // namespace tapegrad::optim
