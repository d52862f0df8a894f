#pragma once

#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/api/text_request.h"
#include "tapegrad/apps/serve/api/tools/tools.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"

namespace tapegrad::serve {

// Makes the calls of an answer well-formed, by a mask: they are of the functions that there are,
// and their arguments fit the schemas. An answer that must call is calls and nothing else; any
// other one is free until a call begins, or JSON as the request's format says, if it does. Says so
// in `reading`. Behind the last field that is read.
//
// A schema that the grammar does not take is refused by its field if the function is strict, or a
// call must come. Else it is named as ignored: arguments are any object.
void hold_calls(const Fields& fields, const Asked& asked, const Tools& tools, TextRequest& request,
                data::AnswerReading& reading);

}  // namespace tapegrad::serve
