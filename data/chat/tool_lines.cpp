#include "tapegrad/data/chat/internal/tool_lines.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/answers/internal/value_scanner.h"

namespace tapegrad::data {
namespace {

// What a text says, if it is the text of JSON.
Json parsed(const Json& given, std::string_view of) {
  if (!given.is_string()) return given;
  try {
    return parse_json<Json>(given.get_ref<const std::string&>(), kMostArgumentDepth);
  } catch (const Error& error) {
    fail("{}: no JSON: {}", of, error.what());
  }
}

bool is_named(const Json& function) {
  const auto name = function.find("name");
  return name != function.end() && name->is_string() &&
         !name->get_ref<const std::string&>().empty();
}

// {"type": "function", "function": …}, of that or of a function alone.
Json in_openai_form(const Json& given, const std::string& of) {
  check(given.is_object(), "{} is no object", of);
  const auto function = given.find("function");
  if (function == given.end()) {
    check(is_named(given), "{} has no 'function' with a 'name'", of);
    return {{"type", "function"}, {"function", given}};
  }
  check(function->is_object() && is_named(*function), "{} has no 'function' with a 'name'", of);
  const Json type = given.value("type", Json("function"));
  check(type == "function", "{} is of the type {}, and functions alone are known", of,
        json_text(type));
  return given;
}

// Of a call that is to be learnt: a name that comes twice is a mistake there.
bool has_plain_arguments(const Json& function) {
  const Json given = function.value("arguments", Json());
  if (given.is_null() || given == "") return true;
  try {
    return parsed(given, "").is_object();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_arguments(const Json& given) {
  if (given.is_null() || given == "") return true;
  if (!given.is_string()) return given.is_object();
  const std::string_view text = without_space(given.get_ref<const std::string&>());
  ValueScanner scanner(ValueSyntax::json);
  std::string json;
  const auto goes_on = [&](char c) { return !scanner.complete() && scanner.push(c, json); };
  return text.starts_with('{') && std::all_of(text.begin(), text.end(), goes_on) &&
         scanner.complete();
}

Json functions_of(const Json& given, std::string_view of) {
  const Json list = parsed(given, of);
  check(list.is_array(), "{}: no list of functions", of);
  Json made = Json::array();
  for (const Json& function : list) {
    made.push_back(in_openai_form(function, fmt::format("{}: element {}", of, made.size())));
  }
  return made;
}

Json calls_of(const Json& given, std::string_view of) {
  Json list = parsed(given, of);
  if (list.is_object()) list = Json::array({std::move(list)});
  check(list.is_array(), "{}: no list of calls", of);
  Json made = Json::array();
  for (const Json& call : list) {
    const std::string element = fmt::format("{}: call {}", of, made.size() + 1);
    Json& added = made.emplace_back(in_openai_form(call, element));
    check(has_plain_arguments(added["function"]), "{} has arguments that are no JSON object",
          element);
  }
  return made;
}

Json* calls_in(Json& message) {
  const auto calls = message.find("tool_calls");
  const bool any = calls != message.end() && calls->is_array() && !calls->empty();
  return any ? &*calls : nullptr;
}

Json& function_in(Json& call) {
  const auto function = call.find("function");
  return function != call.end() && function->is_object() ? *function : call;
}

}  // namespace tapegrad::data
