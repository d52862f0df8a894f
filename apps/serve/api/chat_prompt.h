#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/apps/serve/api/tools/tools.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// The messages of a request, whatever it calls them.
struct ChatMessages {
  std::string field;                // of the request, that they come from
  const Json& list;                 // as "messages" of chat completions has them
  std::vector<std::string> places;  // of each in the request: "input[3]"
  Json variables = Json::object();  // of the template, where 'chat_template_kwargs' has none
  // What the answer may call. It is told how by the template, or by a message: see
  // data::with_tools_for().
  Tools tools = {};
};
// Those of the field "messages", and the fields of tools and of the manner of an answer.
ChatMessages read_messages(Fields& fields, const Asked& asked);

// What the model is given for the messages of a request.
struct ChatPrompt {
  data::RenderedChat chat = {};
  // What stands of the last message's content, if the model goes on with it: see
  // data::render_continued().
  std::optional<std::string> begun = {};
};

// What becomes of a last message of the assistant if the request wants no new answer behind it, and
// says nothing else.
enum class BegunAnswer {
  ends,     // it is rendered like any other
  goes_on,  // if it can: there are no tools, it has no calls, and the template shows it once and as
            // it is
};
// Reads the fields that say it. Refused if the model has no template, if it refuses the messages,
// or if the last one cannot go on, though the request says that it does.
ChatPrompt chat_prompt(Fields& fields, const Asked& asked, const ChatMessages& messages,
                       BegunAnswer begun = BegunAnswer::ends);

}  // namespace tapegrad::serve
