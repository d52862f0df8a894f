#include "tapegrad/apps/serve/api/chat_prompt.h"

#include <string_view>
#include <tuple>
#include <utility>

#include "tapegrad/data/chat/render_chat.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;
constexpr int kMessageDepth = 64;  // of JSON

// A text, or a list of parts of which all are texts.
std::string content_of(Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) message.refuse_type("content", "a text, or a list of parts");
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part =
        message.inside((*content)[i], kInMessage, message.path_of(fmt::format("content[{}]", i)));
    std::string type = "text", piece;
    part.choice("type", type, {"text"});
    if (!part.text("text", piece)) part.refuse_type("text", "a text");
    part.end();
    text += piece;
  }
  return text;
}

data::Message message_of(Fields fields, const Json& json, const data::ChatTemplate& chat) {
  std::string role;
  if (!fields.text("role", role) || role.empty()) {
    fields.refuse("role", fmt::format("'{}' is missing", fields.path_of("role")),
                  "missing_required_parameter");
  }
  data::Message message{.role = role, .content = content_of(fields)};
  // Fields that only some templates look at: they see the object as it came, with one text for all
  // parts.
  constexpr std::string_view kMore[] = {"name", "tool_calls", "tool_call_id", "reasoning_content"};
  bool more = false;
  for (const std::string_view name : kMore) more = fields.find(name) != nullptr || more;
  if (!more && !json.contains("content")) {  // it may be spelled otherwise
    fields.refuse("content", fmt::format("'{}' is missing", fields.path_of("content")),
                  "missing_required_parameter");
  }
  for (const std::string_view name : fields.unknown()) {
    if (chat.source().find(name) == std::string::npos) continue;
    more = true;
    fields.find(name);
  }
  fields.end();
  if (!more) return message;
  Json whole = json;
  whole["content"] = message.content;
  return data::message_of_json(json_text(whole));
}

// What a template does not look at would be lost without a word: a call of a tool.
void check_shows_calls(const Fields& message, const Json& json, const data::ChatTemplate& chat,
                       std::size_t index) {
  for (const char* key : {"tool_calls", "function_call"}) {
    const auto calls = json.find(key);
    const bool any = calls != json.end() && !calls->is_null() && !calls->empty();
    if (!any || chat.source().find(key) != std::string::npos) continue;
    message.refuse("messages",
                   fmt::format("messages[{}] has '{}', which the model's chat template does not "
                               "show: write it into 'content'",
                               index, key),
                   "template_error");
  }
}

data::Conversation conversation_of(Fields& fields, const Asked& asked) {
  const data::ChatTemplate& chat = *asked.model.chat;
  const Json* messages = fields.find("messages");
  if (messages == nullptr) {
    fields.refuse("messages", "'messages' is missing", "missing_required_parameter");
  }
  if (!messages->is_array() || messages->empty()) {
    fields.refuse_type("messages", "a list of at least one message");
  }
  if (messages->size() > kMostMessages) {
    fields.refuse("messages", fmt::format("'messages' has {} messages, and {} are the most",
                                          messages->size(), kMostMessages));
  }
  data::Conversation conversation;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    asked.look();
    const Json& message = (*messages)[i];
    Fields of_message = fields.inside(message, kInMessage, fmt::format("messages[{}]", i));
    check_shows_calls(fields, message, chat, i);
    conversation.messages.push_back(message_of(std::move(of_message), message, chat));
  }
  return conversation;
}

// Whether the model goes on with the last message, in place of a new one: if the request says so,
// or if it wants no beginning of an answer behind one of the assistant.
bool goes_on(Fields& fields, const data::Message& last, std::optional<bool> new_answer) {
  const bool may = last.role == "assistant";
  const bool usual = may && !new_answer.value_or(true);
  bool asked_for = usual;
  fields.boolean("continue_final_message", asked_for);
  if (!asked_for) return false;
  const auto refuse = [&](const char* why) {
    fields.refuse("continue_final_message", fmt::format("'continue_final_message' {}", why));
  };
  if (!may) refuse("needs a last message of the role 'assistant'");
  if (new_answer.value_or(false)) refuse("excludes 'add_generation_prompt': true");
  if (!last.json.empty() &&
      !parse_json<Json>(last.json, kMessageDepth).value("tool_calls", Json()).empty()) {
    refuse("excludes a last message with 'tool_calls'");
  }
  return true;
}

}  // namespace

ChatPrompt chat_prompt(Fields& fields, const Asked& asked) {
  const ServedModel& model = asked.model;
  if (!model.chat) {
    throw Refused({.message = fmt::format("the model '{}' has no template for conversations: "
                                          "/v1/completions continues texts",
                                          model.name()),
                   .param = "messages",
                   .code = "no_chat_template"});
  }
  const data::Conversation conversation = conversation_of(fields, asked);
  std::string variables;
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) fields.refuse_type("chat_template_kwargs", "an object");
    variables = json_text(*given);
  }
  std::optional<bool> new_answer;
  if (bool given = true; fields.find("add_generation_prompt") != nullptr) {
    fields.boolean("add_generation_prompt", given);
    new_answer = given;
  }
  const bool on = goes_on(fields, conversation.messages.back(), new_answer);
  for (const std::string_view name : fields.unknown()) {
    if (!model.chat->reads(name)) continue;
    fields.refuse(name,
                  fmt::format("the template reads '{}': give it in 'chat_template_kwargs'", name),
                  "unsupported_parameter");
  }
  data::RenderLimits limits = data::RenderLimits::of_one_request();
  limits.look = asked.look;
  const auto& [chat, tokenizer] = std::tie(*model.chat, model.model.tokenizer);
  try {
    ChatPrompt prompt{
        .chat = on ? data::render_continued(chat, tokenizer, conversation, variables, limits)
                   : data::render_chat(chat, tokenizer, conversation, new_answer.value_or(true),
                                       variables, limits)};
    if (on) prompt.begun = conversation.messages.back().content;
    return prompt;
  } catch (const Error& error) {
    fields.refuse("messages", fmt::format("the model's template says: {}", error.what()),
                  "template_error");
  }
}

}  // namespace tapegrad::serve
