#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapegrad/apps/watch/run_list.h"

namespace tapegrad::watch {

// What a browser asked for, as far as it matters here. A header that is missing is "".
struct Request {
  std::string method, target, host, origin, content_type, body;
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside the usual ones
};
// {"error": why}
Response refusal(int status, const std::string& why);
// The headers that each response has.
std::vector<std::pair<std::string, std::string>> usual_headers(const Response& response);

// Answers that take longer than a moment: the stream of events; what inspect says of a text.
struct Events {};
struct Inspection {
  std::filesystem::path run;  // its folder
  std::string text;
};
using Answer = std::variant<Response, Events, Inspection>;

inline constexpr std::size_t kMostInspectedBytes = 4 << 10;

// The paths that the server has: see docs/watching.md. `host` is the address that it listens at,
// `inspects` whether there is a program to answer an Inspection.
Answer answer(const Request& request, const RunList& runs, const std::string& host, bool inspects);

// An event of the stream, as it is sent.
std::string event(std::string_view name, const std::string& data);

}  // namespace tapegrad::watch
