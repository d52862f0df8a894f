#pragma once

#include <memory>

#include "tapegrad/apps/serve/api/completions.h"

namespace tapegrad::serve {

// POST /v1/chat/completions: what the model says next in a conversation, by its own template.
std::unique_ptr<Job> chat_completions(const Json& body, const Asked& asked);

// The text that the model is given for the messages of a request: POST /apply-template. Refused if
// the model has no template, or if it refuses the messages.
data::RenderedChat chat_prompt(Fields& fields, const Asked& asked);

}  // namespace tapegrad::serve
