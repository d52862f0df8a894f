#pragma once

#include <cstdint>
#include <optional>

#include "tapegrad/apps/evaluate/evaluate_options.h"
#include "tapegrad/apps/evaluate/model_report.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::evaluation {

// Evaluates a model on a text or on conversations; nothing if a signal comes before there is a
// result. `weight_bytes`: of the tensors in the model's files.
std::optional<Evaluation> run_text(const EvaluateOptions& o, run::OpenedModel opened,
                                   std::uint64_t weight_bytes);

}  // namespace tapegrad::evaluation
