#include "tapegrad/data/chat/tools/internal/call_form.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad::data {
namespace {

// A conversation of two calls, one of them by an answer with a text, and their results. Mistral's
// templates take ids of nine characters.
constexpr std::string_view kProbe = R"([
  {"role": "user", "content": "1"},
  {"role": "assistant", "content": "", "tool_calls": [{"id": "000000001", "type": "function",
   "function": {"name": "probe_f", "arguments": {"probe_a": "probe_b"}}}]},
  {"role": "tool", "tool_call_id": "000000001", "name": "probe_f", "content": "probe_c"},
  {"role": "assistant", "content": "2", "tool_calls": [{"id": "000000002", "type": "function",
   "function": {"name": "probe_g", "arguments": {"probe_d": "probe_e"}}}]},
  {"role": "tool", "tool_call_id": "000000002", "name": "probe_g", "content": "probe_h"}])";
constexpr std::string_view kProbeTools = R"([{"type": "function", "function": {"name": "other",
  "description": "other", "parameters": {"type": "object", "properties": {"other": {
   "type": "string", "description": "other"}}, "required": ["other"]}}}])";
constexpr std::string_view kShown[] = {"probe_f", "probe_a", "probe_b", "probe_c",
                                       "probe_g", "probe_d", "probe_e", "probe_h"};
constexpr int kProbeDepth = 8;

bool shows_calls(const ChatTemplate& chat_template, bool has_tools, const CallForm& form,
                 const RenderLimits& most) {
  Conversation probe;
  if (has_tools) probe.tools = kProbeTools;
  for (const Json& message : parse_json<Json>(kProbe, kProbeDepth)) {
    probe.messages.push_back(message_of_json(json_text(in_form(message, form))));
  }
  try {
    const std::string text = chat_template.render(probe, true, {}, most).text;
    return std::all_of(std::begin(kShown), std::end(kShown),
                       [&](std::string_view word) { return text.find(word) != text.npos; });
  } catch (const Error&) {  // the template refuses such a conversation
    return false;
  }
}

Json arguments_in(const Json& given, bool as_text) {
  if (given.is_null()) return as_text ? Json("{}") : Json::object();
  if (as_text) return given.is_string() ? given : Json(json_text(given));
  if (!given.is_string()) return given;
  const std::string& text = given.get_ref<const std::string&>();
  if (text.empty()) return Json::object();
  try {
    Json parsed = parse_json<Json>(text, kMostArgumentDepth);
    return parsed.is_object() ? parsed : given;
  } catch (const Error&) {
    return given;
  }
}

}  // namespace

std::optional<CallForm> call_form_of(const ChatTemplate& chat_template, bool has_tools,
                                     const RenderLimits& most) {
  for (const bool text_arguments : {false, true}) {
    for (const bool no_content : {false, true}) {
      const CallForm form{text_arguments, no_content};
      if (shows_calls(chat_template, has_tools, form, most)) return form;
    }
  }
  return std::nullopt;
}

Json in_form(Json message, const CallForm& form) {
  Json* calls = calls_in(message);
  if (calls == nullptr) return message;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    Json& function = function_in(call);
    function["arguments"] = arguments_in(function["arguments"], form.text_arguments);
  }
  const Json content = message.value("content", Json());
  if (content.is_null() || content == "") {
    message["content"] = form.no_content ? Json() : Json("");
  }
  return message;
}

}  // namespace tapegrad::data
