#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/apps/http/message.h"
#include "tapegrad/apps/watch/run_list.h"

namespace tapegrad::watch {

using http::event;
using http::Request;
using http::Response;

// {"error": why}
Response refusal(int status, const std::string& why);

// Answers that take longer than a moment: the stream of events; what inspect says of a text; where
// a run's model listens.
struct Events {};
struct Inspection {
  std::filesystem::path run;  // its folder
  std::string text;
};
struct Talk {
  std::filesystem::path run;  // whose newest checkpoint somebody wants to talk to
};
using Answer = std::variant<Response, Events, Inspection, Talk>;

inline constexpr std::size_t kMostInspectedBytes = 4 << 10;

// The paths that the server has: see docs/watching.md. `host` is the address that it listens at,
// `inspects` whether there is a program to answer an Inspection or a Talk.
Answer answer(const Request& request, const RunList& runs, const std::string& host, bool inspects);

}  // namespace tapegrad::watch
