#include "tapegrad/data/chat/tools/internal/tool_convention.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/tools/internal/call_form.h"
#include "tapegrad/data/chat/tools/internal/call_texts.h"

namespace tapegrad::data {
namespace {

// The words of Qwen's templates, which Hermes' are like.
constexpr const char* kToolTexts =
    "{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou "
    "are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}"
    "{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}"
    "{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and "
    "arguments within ' + begin|trim + end|trim + ' XML tags:\\n' + begin + '{\"name\": "
    "<function-name>, \"arguments\": <args-json-object>}' + end }}";
std::string words_of(const std::string& tools, const RenderLimits& most) {
  const CallFormat& format = plain_call_format();
  const Json variables = {{"begin", format.begin}, {"end", format.end}};
  return ChatTemplate(kToolTexts)
      .render({.messages = {}, .tools = tools}, false, json_text(variables), most)
      .text;
}

constexpr const char* kWord = "0123456789";

// True if the template shows what one of these messages says.
bool shows_word(const ChatTemplate& chat_template, std::vector<Message> messages,
                const RenderLimits& most) {
  const Conversation probe{.messages = std::move(messages)};
  try {
    return chat_template.render(probe, true, {}, most).text.find(kWord) != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

bool shows_first(const ChatTemplate& chat_template, const std::string& role,
                 const RenderLimits& most) {
  return shows_word(chat_template, {{role, kWord}, {"user", "1"}}, most);
}

bool shows_results(const ChatTemplate& chat_template, const RenderLimits& most) {
  return shows_word(chat_template, {{"user", "1"}, {"assistant", "2"}, {"tool", kWord}}, most);
}

void tell_tools(const ChatTemplate& chat_template, Conversation& conversation,
                const RenderLimits& most) {
  const std::string tools = words_of(conversation.tools, most);
  conversation.tools.clear();
  std::vector<Message>& messages = conversation.messages;
  const auto joined = [](const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : a + "\n\n" + b;
  };
  const bool begins =
      !messages.empty() && (messages[0].role == "system" || messages[0].role == "developer");
  if (begins && shows_first(chat_template, messages[0].role, most)) {
    messages[0] = with_content(messages[0], joined(messages[0].content, tools));
    return;
  }
  if (!begins && shows_first(chat_template, "system", most)) {
    messages.insert(messages.begin(), {.role = "system", .content = tools});
    return;
  }
  const auto user = std::find_if(messages.begin(), messages.end(),
                                 [](const Message& message) { return message.role == "user"; });
  if (user == messages.end()) {
    messages.insert(messages.begin(), {.role = "user", .content = tools});
  } else {
    *user = with_content(*user, joined(tools, user->content));
  }
}

bool has_tool_messages(const Conversation& conversation) {
  return std::any_of(conversation.messages.begin(), conversation.messages.end(),
                     [](const Message& message) {
                       if (message.role == "tool") return true;
                       if (message.json.find("\"tool_calls\"") == message.json.npos) return false;
                       Json json = chat_json(message.json, "a message");
                       return calls_in(json) != nullptr;
                     });
}

}  // namespace

const CallFormat& call_format_for(const ChatTemplate& chat_template) {
  const CallFormat* format = call_format_of(chat_template);
  return format == nullptr ? plain_call_format() : *format;
}

Conversation with_tools_for(const ChatTemplate& chat_template, Conversation conversation,
                            const RenderLimits& most) {
  const CallFormat* format = call_format_of(chat_template);
  const bool tells = !conversation.tools.empty() && format == nullptr;
  if (has_tool_messages(conversation)) {
    std::vector<Message>& messages = conversation.messages;
    const auto form =
        tells ? std::nullopt : call_form_of(chat_template, !conversation.tools.empty(), most);
    if (form) {
      messages = in_form(std::move(messages), *form, most);
    } else {
      const bool keeps_results = format != nullptr && shows_results(chat_template, most);
      messages =
          with_call_texts(call_format_for(chat_template), keeps_results, std::move(messages), most);
    }
  }
  if (tells) tell_tools(chat_template, conversation, most);
  return conversation;
}

}  // namespace tapegrad::data
