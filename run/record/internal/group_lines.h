#pragma once

#include <string>
#include <vector>

#include "tapegrad/optim/parameter_groups.h"

namespace tapegrad::run {

// A line for each group of parameters, in columns:
//   "adamw  lr × 1    decay 0.1  18 tensors  802,944 weights  wte.weight, wpe.weight, …"
std::vector<std::string> group_lines(const NamedTensors& parameters,
                                     const optim::ParameterGroups& groups);

}  // namespace tapegrad::run
