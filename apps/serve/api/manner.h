#pragma once

#include <string_view>

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/apps/serve/served_model.h"

namespace tapegrad::serve {

// A field that says how a model is to answer, as a variable of templates that read it. Where the
// template does not, it is ignored: without a word if it is "none" or "medium".
void read_manner(Fields& fields, std::string_view name, std::string_view variable,
                 const ServedModel& model, Json& variables);
// The effort of reasoning, the variable `reasoning_effort`. "none" is `enable_thinking`: false,
// too.
void read_effort(Fields& fields, std::string_view name, const ServedModel& model, Json& variables);

}  // namespace tapegrad::serve
