#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/serve/api/chat_prompt.h"

namespace tapegrad::serve {

// The conversation of a request for a response, as chat completions have it.
struct ResponseInput {
  Json messages = Json::array();
  std::vector<std::string> places = {};  // of each in the request: "instructions", "input[3]"
};

// Reads "instructions" and "input". Instructions and the system's messages that the input begins
// with are one message of the system, since templates have room for one. Calls of functions that
// follow an answer are its own, and reasoning before an answer, too.
ResponseInput read_response_input(Fields& fields, const Asked& asked);

}  // namespace tapegrad::serve
