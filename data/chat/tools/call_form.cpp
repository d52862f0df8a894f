#include "tapegrad/data/chat/tools/internal/call_form.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/internal/tool_lines.h"

namespace tapegrad::data {
namespace {

// A conversation of an answer with two calls, and of one with a text and a call. Its ids are as
// long as those of OpenAI's clients, whose results have no name.
constexpr std::string_view kProbe = R"([
  {"role": "user", "content": "1"},
  {"role": "assistant", "content": "", "tool_calls": [
   {"id": "call_00000000000000000001", "type": "function",
    "function": {"name": "probe_f", "arguments": {"probe_a": "probe_b"}}},
   {"id": "call_00000000000000000002", "type": "function",
    "function": {"name": "probe_g", "arguments": {"probe_d": "probe_e"}}}]},
  {"role": "tool", "tool_call_id": "call_00000000000000000001", "content": "probe_c"},
  {"role": "tool", "tool_call_id": "call_00000000000000000002", "content": "probe_h"},
  {"role": "assistant", "content": "2", "tool_calls": [
   {"id": "call_00000000000000000003", "type": "function",
    "function": {"name": "probe_i", "arguments": {"probe_j": "probe_k"}}}]},
  {"role": "tool", "tool_call_id": "call_00000000000000000003", "content": "probe_l"}])";
constexpr std::string_view kProbeTools = R"([{"type": "function", "function": {"name": "other",
  "description": "other", "parameters": {"type": "object", "properties": {"other": {
   "type": "string", "description": "other"}}, "required": ["other"]}}}])";
constexpr std::string_view kShown[] = {"probe_f", "probe_a", "probe_b", "probe_c",
                                       "probe_g", "probe_d", "probe_e", "probe_h",
                                       "probe_i", "probe_j", "probe_k", "probe_l"};
constexpr int kProbeDepth = 8;
// All probes together may cost what one conversation may.
constexpr std::size_t kForms = 32;

bool shows_calls(const ChatTemplate& chat_template, bool has_tools, const CallForm& form,
                 const std::vector<Message>& messages, const RenderLimits& most) {
  Conversation probe{.messages = in_form(messages, form, most)};
  if (has_tools) probe.tools = kProbeTools;
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
  std::vector<Message> messages;
  for (const Json& message : parse_json<Json>(kProbe, kProbeDepth)) {
    messages.push_back(message_of_json(json_text(message)));
  }
  RenderLimits least = most;
  least.steps = most.steps / kForms;
  for (std::size_t bits = 0; bits < kForms; ++bits) {
    const auto bit = [bits](std::size_t n) { return (bits >> n & 1) != 0; };
    const CallForm form{.text_arguments = bit(1),
                        .no_content = bit(0),
                        .short_ids = bit(2),
                        .names = bit(3),
                        .single = bit(4)};
    if (shows_calls(chat_template, has_tools, form, messages, least)) return form;
  }
  return std::nullopt;
}

std::string text_in(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
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
