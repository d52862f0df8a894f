#include "tapegrad/data/chat/tools/internal/tool_convention.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/chat/tools/internal/call_form.h"

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
constexpr const char* kCallTexts =
    "{%- for call in calls %}{%- if not loop.first %}{{- '\\n' }}{%- endif %}"
    "{{- begin }}{{- call | tojson }}{{- end }}{%- endfor %}";

std::string in_words(const char* words, Json calls, const std::string& tools,
                     const RenderLimits& most) {
  const CallFormat& format = plain_call_format();
  const Json variables = {
      {"begin", format.begin}, {"end", format.end}, {"calls", std::move(calls)}};
  return ChatTemplate(words)
      .render({.messages = {}, .tools = tools}, false, json_text(variables), most)
      .text;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool shows_system(const ChatTemplate& chat_template, const RenderLimits& most) {
  constexpr std::string_view kWord = "0123456789";
  const Conversation probe{.messages = {{.role = "system", .content = std::string(kWord)},
                                        {.role = "user", .content = "1"}}};
  try {
    return chat_template.render(probe, true, {}, most).text.find(kWord) != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

void tell_tools(const ChatTemplate& chat_template, Conversation& conversation,
                const RenderLimits& most) {
  const std::string tools = in_words(kToolTexts, Json::array(), conversation.tools, most);
  conversation.tools.clear();
  std::vector<Message>& messages = conversation.messages;
  const auto joined = [](const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : a + "\n\n" + b;
  };
  const bool begins =
      !messages.empty() && (messages[0].role == "system" || messages[0].role == "developer");
  if (begins) {
    messages[0] = with_content(messages[0], joined(messages[0].content, tools));
    return;
  }
  if (shows_system(chat_template, most)) {
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

// Writes calls and results as texts.
class TextsOfCalls {
 public:
  explicit TextsOfCalls(const RenderLimits& most) : most_(most) {}

  std::vector<Message> of(std::vector<Message> messages) {
    for (Message& message : messages) {
      if (most_.look) most_.look();
      if (message.role == "tool") {
        add_result(message);
        continue;
      }
      const bool follows = !results_.empty() && message.role == "user";
      std::string results = take_results();
      if (follows) {
        message = with_content(message, results + "\n" + message.content);
      } else if (!results.empty()) {
        made_.push_back({.role = "user", .content = std::move(results)});
      }
      made_.push_back(with_call_texts(std::move(message)));
    }
    if (!results_.empty()) made_.push_back({.role = "user", .content = take_results()});
    return std::move(made_);
  }

 private:
  struct Result {
    std::size_t order;  // of its call
    std::string text;
  };

  void add_result(const Message& message) {
    const Json json = message.json.empty() ? Json::object() : chat_json(message.json, "a message");
    const auto id = std::find(ids_.begin(), ids_.end(), text_in(json, "tool_call_id"));
    results_.push_back({.order = static_cast<std::size_t>(id - ids_.begin()),
                        .text = "<tool_response>\n" + message.content + "\n</tool_response>"});
  }

  std::string take_results() {
    std::stable_sort(results_.begin(), results_.end(),
                     [](const Result& a, const Result& b) { return a.order < b.order; });
    std::string text;
    for (const Result& result : results_) text += (text.empty() ? "" : "\n") + result.text;
    results_.clear();
    return text;
  }

  Message with_call_texts(Message message) {
    if (message.json.empty()) return message;
    Json json = in_form(chat_json(message.json, "a message"), {});
    Json* calls = calls_in(json);
    if (calls == nullptr) return message;
    ids_.clear();
    Json said = Json::array();
    for (Json& call : *calls) {
      if (!call.is_object()) continue;
      const Json& function = function_in(call);
      ids_.push_back(text_in(call, "id"));
      said.push_back({{"name", text_in(function, "name")}, {"arguments", function["arguments"]}});
    }
    json.erase("tool_calls");
    const std::string texts = in_words(kCallTexts, std::move(said), {}, most_);
    json["content"] = message.content + (message.content.empty() ? "" : "\n") + texts;
    return message_of_json(json_text(json));
  }

  const RenderLimits& most_;
  std::vector<Message> made_;
  std::vector<Result> results_;   // that follow each other
  std::vector<std::string> ids_;  // of the last calls
};

bool has_tool_messages(const Conversation& conversation) {
  return std::any_of(conversation.messages.begin(), conversation.messages.end(),
                     [](const Message& message) {
                       if (message.role == "tool") return true;
                       if (message.json.find("\"tool_calls\"") == message.json.npos) return false;
                       Json json = chat_json(message.json, "a message");
                       return calls_in(json) != nullptr;
                     });
}

std::vector<Message> with_calls_in(const CallForm& form, std::vector<Message> messages,
                                   const RenderLimits& most) {
  for (Message& message : messages) {
    if (message.json.empty()) continue;
    if (most.look) most.look();
    Json json = chat_json(message.json, "a message");
    if (calls_in(json) == nullptr) continue;
    message = message_of_json(json_text(in_form(std::move(json), form)));
  }
  return messages;
}

}  // namespace

const CallFormat& call_format_for(const ChatTemplate& chat_template) {
  const CallFormat* format = call_format_of(chat_template);
  return format == nullptr ? plain_call_format() : *format;
}

Conversation with_tools_for(const ChatTemplate& chat_template, Conversation conversation,
                            const RenderLimits& most) {
  const bool used = has_tool_messages(conversation);
  const bool tells = !conversation.tools.empty() && call_format_of(chat_template) == nullptr;
  if (used) {
    std::vector<Message>& messages = conversation.messages;
    const auto form =
        tells ? std::nullopt : call_form_of(chat_template, !conversation.tools.empty(), most);
    messages = form ? with_calls_in(*form, std::move(messages), most)
                    : TextsOfCalls(most).of(std::move(messages));
  }
  if (tells) tell_tools(chat_template, conversation, most);
  return conversation;
}

}  // namespace tapegrad::data
