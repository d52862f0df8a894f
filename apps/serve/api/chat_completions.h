#pragma once

#include <memory>

#include "tapegrad/apps/serve/api/completions.h"

namespace tapegrad::serve {

// POST /v1/chat/completions: what the model says next in a conversation, by its own template.
std::unique_ptr<Job> chat_completions(const Json& body, const Asked& asked);

}  // namespace tapegrad::serve
