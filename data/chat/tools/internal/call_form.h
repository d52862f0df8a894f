#pragma once

#include <optional>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data {

// The form in which a template wants messages with calls.
struct CallForm {
  bool text_arguments = false;  // the text of JSON, in place of an object
  bool no_content = false;      // None, in place of an empty content
};

// The first form in which the template shows calls and their results, in a conversation with tools
// or in one without; none if there is none.
std::optional<CallForm> call_form_of(const ChatTemplate& chat_template, bool has_tools,
                                     const RenderLimits& most);

// A message with calls in such a form. Arguments that are no text of an object stay.
Json in_form(Json message, const CallForm& form);

}  // namespace tapegrad::data
