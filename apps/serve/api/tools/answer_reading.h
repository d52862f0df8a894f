#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/serve/api/tools/tools.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// The functions that an answer may call.
std::vector<FunctionTool> callable_functions(const Tools& tools);

// How the answer to a prompt is taken apart: calls, if it may have any, and reasoning, if the
// template's models reason. `begun`: what the prompt has of the answer, so that it goes on there.
data::AnswerReading answer_reading(const data::ChatTemplate& chat, const Tools& tools,
                                   std::string_view prompt,
                                   const std::optional<std::string>& begun = {});

}  // namespace tapegrad::serve
