#pragma once

#include <memory>

#include "tapegrad/apps/serve/api/completions.h"

namespace tapegrad::serve {

// POST /v1/embeddings: for each input, the mean of the model's last states, or the last one, with
// length 1.
std::unique_ptr<Job> embeddings(const Json& body, const Asked& asked);

}  // namespace tapegrad::serve
