#pragma once

#include <string>
#include <vector>

#include "tapegrad/run/options/options.h"

namespace tapegrad::run {

// Notes on options that a run of max_iters steps cannot fulfil: a learning rate that it does not
// reach, an early stop that cannot come, a best model with little to choose from, a step that
// `ranks` processes cannot share evenly. For people, at the start; none for most runs.
std::vector<std::string> start_notes(const OptimizerOptions& optimizer,
                                     const EvaluationOptions& evaluation, int ranks = 1);

}  // namespace tapegrad::run
