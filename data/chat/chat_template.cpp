#include "tapegrad/data/chat/chat_template.h"

#include <utility>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/jinja/internal/template.h"

namespace tapegrad::data {
namespace {

constexpr const char* kChatML =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' %}"
    "{%- generation %}{{- message.content + '<|im_end|>' }}{%- endgeneration %}"
    "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}"
    "{{- '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

jinja::Value value_of(const Message& message) {
  if (!message.json.empty()) return jinja::value_of(chat_json(message.json, "a message"));
  auto dict = std::make_shared<jinja::Dict>();
  dict->set(jinja::Value("role"), jinja::Value(message.role));
  dict->set(jinja::Value("content"), jinja::Value(message.content));
  return jinja::Value(jinja::DictRef(std::move(dict)));
}

// A list as the text of JSON; None if there is none.
jinja::Value list_value(const std::string& text, const char* what) {
  if (text.empty()) return {};
  const Json json = chat_json(text, what);
  check(json.is_array(), "[chat template] {} must be a list", what);
  return jinja::value_of(json);
}

// Turns a template's exception into an Error of the house.
template <class F>
auto with_place(const F& f) {
  try {
    return f();
  } catch (const jinja::TemplateError& error) {
    if (error.line() != 0) throw;
    fail("[chat template] {}", error.message());
  }
}

}  // namespace

Message message_of_json(std::string_view object) {
  const Json json = chat_json(object, "a message");
  check(json.is_object(), "[chat template] a message must be a JSON object");
  const auto role = json.find("role"), content = json.find("content");
  check(role != json.end() && role->is_string(),
        "[chat template] a message must have a text 'role'");
  Message message{.role = role->get<std::string>()};
  const bool plain = content != json.end() && content->is_string();
  if (plain) message.content = content->get<std::string>();
  const bool says_more = json.size() != 2 || !plain || json.begin().key() != "role";
  if (says_more) message.json = std::string(object);
  return message;
}

std::string json_of_message(const Message& message) {
  if (!message.json.empty()) return message.json;
  return json_text(Json{{"role", message.role}, {"content", message.content}});
}

Message with_content(Message message, std::string content) {
  if (!message.json.empty()) {
    Json json = chat_json(message.json, "a message");
    json["content"] = content;
    message.json = json_text(json);
  }
  message.content = std::move(content);
  return message;
}

struct ChatTemplate::Parsed {
  Parsed(std::string source_, SpecialTokenTexts special_tokens_)
      : source(std::move(source_)), special_tokens(std::move(special_tokens_)), parsed(source) {}
  std::string source;
  SpecialTokenTexts special_tokens;
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::string source, SpecialTokenTexts special_tokens)
    : parsed_(with_place([&] {
        return std::make_shared<const Parsed>(std::move(source), std::move(special_tokens));
      })) {}

ChatTemplate ChatTemplate::chatml() { return ChatTemplate(kChatML); }

RenderedChat ChatTemplate::render(const Conversation& conversation, bool add_generation_prompt,
                                  std::string_view variables, const RenderLimits& most) const {
  return with_place([&] {
    std::vector<std::pair<std::string, jinja::Value>> given;
    for (const auto& [name, text] : parsed_->special_tokens) given.emplace_back(name, text);
    jinja::Values messages;
    for (const Message& message : conversation.messages) messages.push_back(value_of(message));
    given.emplace_back("messages", jinja::list_of(std::move(messages)));
    given.emplace_back("tools", list_value(conversation.tools, "tools"));
    given.emplace_back("documents", list_value(conversation.documents, "documents"));
    given.emplace_back("add_generation_prompt", jinja::Value(add_generation_prompt));
    if (!variables.empty()) {
      const Json more = chat_json(variables, "variables");
      check(more.is_object(), "[chat template] variables must be a JSON object");
      for (const auto& [name, value] : more.items()) {
        given.emplace_back(name, jinja::value_of(value));
      }
    }
    auto [text, generated] = parsed_->parsed.render(given, most);
    RenderedChat rendered{.text = std::move(text)};
    for (const auto& [begin, end] : generated) rendered.generated.push_back({begin, end});
    return rendered;
  });
}

ChatTemplate ChatTemplate::with_special_in_messages(bool reads) const {
  ChatTemplate made = *this;
  made.special_in_messages_ = reads;
  return made;
}

bool ChatTemplate::marks_generations() const { return parsed_->parsed.marks_generations(); }
bool ChatTemplate::reads(std::string_view variable) const {
  return parsed_->parsed.reads(variable);
}
const std::string& ChatTemplate::source() const { return parsed_->source; }

}  // namespace tapegrad::data
