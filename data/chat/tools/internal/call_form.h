#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data {

// The form in which a template wants messages with calls, and their results.
struct CallForm {
  bool text_arguments = false;  // the text of JSON, in place of an object
  bool no_content = false;      // None, in place of an empty content
  bool short_ids = false;       // of nine letters and digits, as Mistral's templates check them
  bool names = false;           // a result has the name of its function
  bool single = false;          // each call in a message of its own, with its results behind it
};

// The first form in which the template shows two calls of one answer and their results, in a
// conversation with tools or in one without; none if there is none.
std::optional<CallForm> call_form_of(const ChatTemplate& chat_template, bool has_tools,
                                     const RenderLimits& most);

// A member that is a text; "" if it is none.
std::string text_in(const Json& object, std::string_view key);
// Arguments and content of one message in such a form. Arguments that are no text of an object
// stay.
Json in_form(Json message, const CallForm& form);
// All messages in such a form, results in the order of their calls. A result without an id is that
// of the first call that has none yet. Error for a message that is no JSON.
std::vector<Message> in_form(std::vector<Message> messages, const CallForm& form,
                             const RenderLimits& most);

}  // namespace tapegrad::data
