#pragma once

#include <string_view>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::data {

// Functions and calls as files have them, in OpenAI's form, which templates see.

// A list of functions: {"type": "function", "function": {"name": …, …}}, or the functions alone,
// {"name": …, …}; or the text of such a list. Error, beginning with `of`, for what is none.
Json functions_of(const Json& given, std::string_view of);

// A list of calls: {"id": …, "type": "function", "function": {"name": …, "arguments": …}}, or calls
// {"name": …, "arguments": …}; or a single call; or the text of these. Arguments are an object or
// the text of one, and stay as they are; they may be missing. Error, beginning with `of`, for what
// is none.
Json calls_of(const Json& given, std::string_view of);

// True of arguments that a conversation may have: an object, the text of one, and none, which is
// null, or "" as some clients write it. Whatever AnswerReader says of a call is such a text, though
// a name that comes twice, say, makes it one that parse_json() refuses.
bool is_arguments(const Json& given);

// The calls of a message: a list that is not empty; nullptr if there are none.
Json* calls_in(Json& message);
// What a call says, which may stand in an object of its own: {"type": "function", "function": …}.
Json& function_in(Json& call);

}  // namespace tapegrad::data
