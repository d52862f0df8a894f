#include "tapegrad/apps/serve/api/chat_completions.h"

#include <algorithm>
#include <utility>

#include "tapegrad/data/chat/render_chat.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;

class ChatFormat : public TextFormat {
 public:
  ChatFormat(const data::Tokenizer& tokenizer, bool logprobs)
      : tokenizer_(tokenizer), logprobs_(logprobs) {}

  const char* id_prefix() const override { return "chatcmpl-"; }
  const char* object(bool streams) const override {
    return streams ? "chat.completion.chunk" : "chat.completion";
  }
  Json choice(const TextPart& part) const override {
    return {{"index", part.index},
            {"message", {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}}},
            {"logprobs", logprobs(part)},
            {"finish_reason", finish(part)}};
  }
  std::optional<Json> begin(std::size_t index) const override {
    return Json{{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}};
  }
  Json delta(const TextPart& part) const override {
    return {{"index", part.index},
            {"delta", part.finish ? Json::object() : Json{{"content", part.text}}},
            {"logprobs", part.finish ? Json() : logprobs(part)},
            {"finish_reason", finish(part)}};
  }

 private:
  static Json finish(const TextPart& part) { return part.finish ? Json(*part.finish) : Json(); }
  Json token(std::int32_t id, double logprob) const {
    const std::string bytes = tokenizer_.token_bytes(id);
    Json numbers = Json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
    return {{"token", bytes}, {"logprob", shown_logprob(logprob)}, {"bytes", std::move(numbers)}};
  }
  Json logprobs(const TextPart& part) const {
    if (!logprobs_) return {};
    Json content = Json::array();
    for (const ShownToken& shown : part.tokens) {
      Json json = token(shown.token.token, shown.token.logprob);
      json["top_logprobs"] = Json::array();
      for (const nn::TokenLogprob& t : shown.token.top) {
        json["top_logprobs"].push_back(token(t.token, t.logprob));
      }
      content.push_back(std::move(json));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  const data::Tokenizer& tokenizer_;
  const bool logprobs_;
};

// A text, or a list of parts of which all are texts.
std::string content_of(Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) message.refuse_type("content", "a text, or a list of parts");
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], message.path_of(fmt::format("content[{}]", i)));
    std::string type = "text", piece;
    part.choice("type", type, {"text"});
    if (!part.text("text", piece)) part.refuse_type("text", "a text");
    text += piece;
  }
  return text;
}

// Fields that nothing looks at change nothing: clients mark messages and parts with their own.
data::Message message_of(const Json& json, std::size_t index, const data::ChatTemplate& chat) {
  Fields fields(json, fmt::format("messages[{}]", index));
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
  const auto is_read = [&](const auto& member) {
    return member.key() != "role" && member.key() != "content" && !member.value().is_null() &&
           chat.source().find(member.key()) != std::string::npos;
  };
  const auto members = json.items();
  if (more || std::any_of(members.begin(), members.end(), is_read)) {
    Json whole = json;
    whole["content"] = message.content;
    message = data::message_of_json(json_text(whole));
  }
  return message;
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
    conversation.messages.push_back(message_of((*messages)[i], i, chat));
    check_shows_calls(fields, (*messages)[i], chat, i);
  }
  return conversation;
}

// A model's files may name the end of a text alone, and not that of an answer.
void stop_at_answer_ends(Fields& fields, const ServedModel& model, nn::GenerateOptions& options) {
  bool ignore_eos = false;
  fields.boolean("ignore_eos", ignore_eos);
  if (ignore_eos) return;
  for (const data::Token end : model.answer_ends) {
    auto& ends = options.stop_tokens;
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
}

}  // namespace

data::RenderedChat chat_prompt(Fields& fields, const Asked& asked) {
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
  bool prompt = true;
  fields.boolean("add_generation_prompt", prompt);
  data::RenderLimits limits = data::RenderLimits::of_one_request();
  limits.look = asked.look;
  try {
    return data::render_chat(*model.chat, model.model.tokenizer, conversation, prompt, variables,
                             limits);
  } catch (const Error& error) {
    fields.refuse("messages", fmt::format("the model's template says: {}", error.what()),
                  "template_error");
  }
}

std::unique_ptr<Job> chat_completions(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body);
  TextRequest request;
  read_text_request(fields, model, asked.new_seed, request);
  stop_at_answer_ends(fields, model, request.options);
  std::optional<std::int64_t> most;
  fields.integer("max_completion_tokens", most, 0, INT32_MAX);
  if (most && request.max_tokens && most != request.max_tokens) {
    fields.refuse("max_tokens", "'max_tokens' and 'max_completion_tokens' differ");
  }
  if (most) request.max_tokens = most;
  bool logprobs = false;
  fields.boolean("logprobs", logprobs);
  std::int64_t top = 0;
  fields.integer("top_logprobs", top, 0, kMostTop);
  if (top > 0 && !logprobs) {
    fields.refuse("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  fields.fixed("tools", nullptr, "the model's text is returned as it is");
  // Without tools, a model is free to call none.
  if (const Json* choice = fields.find("tool_choice"); choice != nullptr && *choice != "auto") {
    fields.fixed("tool_choice", "none", "the model's text is returned as it is");
  }
  fields.unchanging({"parallel_tool_calls"});
  fields.fixed("functions", nullptr, "the model's text is returned as it is");
  fields.fixed("function_call", "none", "the model's text is returned as it is");
  fields.fixed("modalities", Json::array({"text"}), "there are texts alone");
  fields.fixed("audio", nullptr, "there are texts alone");
  fields.fixed("prediction", nullptr, "texts are not predicted");
  fields.fixed("reasoning_effort", nullptr, "chat_template_kwargs may have what a template reads");
  fields.fixed("verbosity", nullptr, "chat_template_kwargs may have what a template reads");
  fields.fixed("web_search_options", nullptr, "nothing is searched");
  const data::RenderedChat chat = chat_prompt(fields, asked);
  fields.end();
  request.options.logprobs = logprobs;
  request.options.top_logprobs = top;
  // The template has what a text begins with.
  TextPrompt prompt;
  prompt.tokens = encoded(fields, "messages", model, chat.text, [&](std::string_view) {
    return data::tokens_of(chat, model.model.tokenizer);
  });
  prompt.spelled = std::ssize(chat.letters);
  if (prompt.tokens.empty()) fields.refuse("messages", "the conversation is an empty text");
  request.options.max_new_tokens =
      new_tokens(model, std::ssize(prompt.tokens), request.max_tokens, model.context, "messages");
  auto format = std::make_unique<ChatFormat>(model.model.tokenizer, logprobs);
  std::vector<TextPrompt> prompts;
  prompts.push_back(std::move(prompt));
  return std::make_unique<TextJob>(model, request, std::move(prompts), std::move(format), asked.id,
                                   asked.reply());
}

}  // namespace tapegrad::serve
