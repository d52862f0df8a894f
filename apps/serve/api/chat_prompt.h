#pragma once

#include <optional>
#include <string>

#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/api/fields.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// What the model is given for the messages of a request.
struct ChatPrompt {
  data::RenderedChat chat = {};
  // The content of the last message, if the model goes on with it: its text ends the chat's.
  std::optional<std::string> begun = {};
};

// Reads the fields that say it. Refused if the model has no template, if it refuses the messages,
// or if the last one cannot go on.
ChatPrompt chat_prompt(Fields& fields, const Asked& asked);

}  // namespace tapegrad::serve
