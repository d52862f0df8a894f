#include "tapegrad/apps/serve/api/chat_prompt.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/apps/serve/api/fields/template_words.h"
#include "tapegrad/apps/serve/api/manner.h"
#include "tapegrad/apps/serve/api/tools/earlier_calls.h"
#include "tapegrad/data/chat/render_chat.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"

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

data::Message message_of(Fields fields, const Json& json, TemplateWords& words,
                         EarlierCalls& calls) {
  std::string role;
  if (!fields.text("role", role) || role.empty()) {
    fields.refuse_missing("role");
  }
  calls.read(fields, role);
  data::Message message{.role = role, .content = content_of(fields)};
  if (role == "developer" && !words.has(role)) message.role = "system";
  // Fields that only some templates look at: they see the object as it came, with one text for all
  // parts.
  constexpr std::string_view kMore[] = {"name", "tool_calls", "tool_call_id", "reasoning_content"};
  bool more = false;
  for (const std::string_view name : kMore) more = fields.find(name) != nullptr || more;
  if (!more && !json.contains("content")) {  // it may be spelled otherwise
    fields.refuse_missing("content");
  }
  more = words.read(fields) || more;
  fields.end();
  if (!more) return message;
  Json whole = json;
  whole["role"] = message.role;
  whole["content"] = message.content;
  return data::message_of_json(json_text(whole));
}

// What a template does not look at would be lost without a word: the older form of a call.
void check_shows_call(const Fields& message, const Json& json, TemplateWords& words) {
  const auto call = json.find("function_call");
  const bool any = call != json.end() && !call->is_null() && !call->empty();
  if (!any || words.has("function_call")) return;
  message.refuse("function_call",
                 fmt::format("'{}' is not shown by the model's chat template: write it into "
                             "'tool_calls'",
                             message.path_of("function_call")),
                 "template_error");
}

data::Conversation conversation_of(Fields& fields, const Asked& asked,
                                   const ChatMessages& messages) {
  data::Conversation conversation;
  TemplateWords words(*asked.model.chat);
  EarlierCalls calls(words);
  for (std::size_t i = 0; i < messages.list.size(); ++i) {
    asked.look();
    const Json& message = messages.list[i];
    Fields of_message = fields.inside(message, kInMessage, messages.places[i]);
    check_shows_call(of_message, message, words);
    conversation.messages.push_back(message_of(std::move(of_message), message, words, calls));
  }
  return conversation;
}

bool has_calls(const data::Message& message) {
  if (message.json.empty()) return false;
  const Json whole = parse_json<Json>(message.json, kMessageDepth);
  const auto has = [&](const char* key) { return !whole.value(key, Json()).empty(); };
  return has("tool_calls") || has("function_call");
}

// Whether a request says that the model goes on with the last message, in place of a new one.
std::optional<bool> says_goes_on(Fields& fields, const data::Message& last,
                                 std::optional<bool> new_answer, const Tools& tools) {
  if (fields.find("continue_final_message") == nullptr) return std::nullopt;
  bool goes_on = false;
  fields.boolean("continue_final_message", goes_on);
  if (!goes_on) return false;
  const auto refuse = [&](const char* why) {
    fields.refuse("continue_final_message", fmt::format("'continue_final_message' {}", why));
  };
  if (last.role != "assistant") refuse("needs a last message of the role 'assistant'");
  if (new_answer.value_or(false)) refuse("excludes 'add_generation_prompt': true");
  if (has_calls(last)) refuse("excludes a last message with calls of tools");
  if (tools.choice != ToolChoice::none) refuse("excludes 'tools'");
  return true;
}

// The variables that a request gives the template, as the text of JSON.
std::string read_variables(Fields& fields, const ChatMessages& messages) {
  Json variables = messages.variables;
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) fields.refuse_type("chat_template_kwargs", "an object");
    variables.update(*given);
  }
  return variables.empty() ? "" : json_text(variables);
}

// A variable of the template that is no field here, or is one that changes nothing by itself.
void check_reads_no(const Fields& fields, const data::ChatTemplate& chat) {
  for (const std::string_view name : fields.unread()) {
    if (!chat.reads(name)) continue;
    fields.refuse(name,
                  fmt::format("the template reads '{}': give it in 'chat_template_kwargs'", name),
                  "unsupported_parameter");
  }
}

}  // namespace

ChatMessages read_messages(Fields& fields, const Asked& asked) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) {
    fields.refuse_missing("messages");
  }
  if (!messages->is_array() || messages->empty()) {
    fields.refuse_type("messages", "a list of at least one message");
  }
  if (messages->size() > kMostMessages) {
    fields.refuse("messages", fmt::format("'messages' has {} messages, and {} are the most",
                                          messages->size(), kMostMessages));
  }
  std::vector<std::string> places;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    places.push_back(fmt::format("messages[{}]", i));
  }
  const std::optional<data::ChatTemplate>& chat = asked.model.chat;
  Json variables = Json::object();
  read_effort(fields, "reasoning_effort", asked.model, variables);
  read_manner(fields, "verbosity", "verbosity", asked.model, variables);
  if (chat && chat->reads("enable_thinking") && fields.find("enable_thinking") != nullptr) {
    bool thinks = true;
    fields.boolean("enable_thinking", thinks);
    variables["enable_thinking"] = thinks;
  }
  return {.field = "messages",
          .list = *messages,
          .places = std::move(places),
          .variables = std::move(variables),
          .tools = chat ? read_tools(fields, *chat, ToolForm::nested) : Tools{}};
}

ChatPrompt chat_prompt(Fields& fields, const Asked& asked, const ChatMessages& messages,
                       BegunAnswer begun) {
  const ServedModel& model = asked.model;
  if (!model.chat) {
    throw Refused({.message = fmt::format("the model '{}' has no template for conversations: "
                                          "/v1/completions continues texts",
                                          model.name()),
                   .param = messages.field,
                   .code = "no_chat_template"});
  }
  data::Conversation conversation = conversation_of(fields, asked, messages);
  const Tools& tools = messages.tools;
  conversation.tools = tools.json;
  const std::string variables = read_variables(fields, messages);
  std::optional<bool> new_answer;
  if (bool given = true; fields.find("add_generation_prompt") != nullptr) {
    fields.boolean("add_generation_prompt", given);
    new_answer = given;
  }
  const data::Message last = conversation.messages.back();
  const std::optional<bool> goes_on = says_goes_on(fields, last, new_answer, tools);
  check_reads_no(fields, *model.chat);
  data::RenderLimits limits = data::RenderLimits::of_one_request();
  limits.look = asked.look;
  const data::ChatTemplate& chat = *model.chat;
  const data::Tokenizer& tokenizer = model.model.tokenizer;
  const auto continued = [&]() -> ChatPrompt {
    data::ContinuedChat made =
        data::render_continued(chat, tokenizer, conversation, variables, limits);
    return {std::move(made.chat), last.content.substr(0, made.kept)};
  };
  const bool may_go_on = begun == BegunAnswer::goes_on && !goes_on && !new_answer.value_or(true) &&
                         last.role == "assistant" && !has_calls(last) &&
                         tools.choice == ToolChoice::none;
  try {
    const bool tells = !tools.json.empty() && data::call_format_of(chat) == nullptr;
    if (tells) asked.ignored->tell_by_message();
    conversation = data::with_tools_for(chat, std::move(conversation), limits);
    if (goes_on.value_or(false)) return continued();
    try {
      if (may_go_on) return continued();
    } catch (const Error&) {  // so that it ends, as nobody has said that it goes on
    }
    return {.chat = data::render_chat(chat, tokenizer, conversation, new_answer.value_or(true),
                                      variables, limits)};
  } catch (const Error& error) {
    fields.refuse(messages.field, fmt::format("the model's template says: {}", error.what()),
                  "template_error");
  }
}

}  // namespace tapegrad::serve
