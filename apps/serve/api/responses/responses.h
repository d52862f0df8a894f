#pragma once

#include <memory>

#include "tapegrad/apps/serve/api/completions.h"

namespace tapegrad::serve {

// POST /v1/responses: what the model says next, as a chat completion has it, in items. Nothing is
// stored.
std::unique_ptr<Job> responses(const Json& body, const Asked& asked);

}  // namespace tapegrad::serve
