#pragma once

#include <string>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// Mean absolute values of one module of a model at one step: its weights before the step, its
// gradient before clipping, and what the step adds to its weights. See LayerStats.
struct LayerMeans {
  std::string name;  // of its parameters, without their last part: "h.0.attn.c_attn"
  double gradient = 0, weight = 0, update = 0;
};

}  // namespace tapegrad::run
