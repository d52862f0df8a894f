#pragma once

#include <cstdint>
#include <string>

#include "tapegrad/apps/serve/model_server.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::serve {

// What one of several models takes of the memory that they share, in bytes.
struct ModelPlan {
  std::uint64_t weights, caches;
  EnginePlan engine;

  std::uint64_t bytes() const { return weights + caches; }
};

// The plan of a model by what its files say, none of whose weights is read. `weights`: as --weights
// has it. With `bounds.cache_bytes`, the keys and values have as many; otherwise a quarter of what
// the weights leave of `memory`, or as much more as a whole text needs. It may be more than
// `memory` has. Error if one text of 2 tokens does not fit into the keys and values.
ModelPlan plan_model(const run::OpenedModel& opened, std::string_view weights, ServerBounds bounds,
                     std::uint64_t memory);

}  // namespace tapegrad::serve
