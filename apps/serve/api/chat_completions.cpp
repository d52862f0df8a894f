#include "tapegrad/apps/serve/api/chat_completions.h"

#include <utility>

#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/apps/serve/api/chat_prompt.h"
#include "tapegrad/data/chat/render_chat.h"

namespace tapegrad::serve {
namespace {

// What a call must be is not held yet.
void check_holds(const Fields& fields, const Tools& tools) {
  if (tools.choice != ToolChoice::required && tools.choice != ToolChoice::named) return;
  fields.refuse("tool_choice",
                "'tool_choice' must be 'auto' or 'none': that an answer calls a function is not "
                "supported",
                "unsupported_parameter");
}

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

}  // namespace

std::unique_ptr<Job> chat_completions(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInChat, *asked.ignored);
  TextRequest request;
  read_text_request(fields, model, asked.new_seed, request);
  // A model's files may name the end of a text alone, and not that of an answer.
  if (!request.ignore_eos) sampling::add_ends(request.options, model.answer_ends);
  read_max_tokens(fields, "max_completion_tokens", request);
  bool logprobs = false;
  fields.boolean("logprobs", logprobs);
  std::int64_t top = 0;
  fields.integer("top_logprobs", top, 0, kMostTop);
  if (top > 0 && !logprobs) {
    fields.refuse("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  bool echo = false;
  fields.boolean("echo", echo);
  // What is begun cannot be taken back by what an answer must be as a whole.
  const bool is_free = request.options.mask == nullptr;
  const ChatPrompt asked_for =
      chat_prompt(fields, asked, is_free ? BegunAnswer::goes_on : BegunAnswer::ends);
  const data::RenderedChat& chat = asked_for.chat;
  check_holds(fields, asked_for.tools);
  fields.end();
  if (asked_for.begun && !is_free) {
    fields.refuse("response_format",
                  "'response_format' has no meaning for an answer that is begun: "
                  "'continue_final_message'");
  }
  if (echo && !asked_for.begun) {
    fields.refuse("echo", "'echo' needs an answer that goes on: 'continue_final_message': true");
  }
  request.options.logprobs = logprobs;
  request.options.top_logprobs = top;
  // The template has what a text begins with.
  TextPrompt prompt;
  prompt.tokens = encoded(fields, "messages", model, chat.text, [&](std::string_view) {
    return data::tokens_of(chat, model.model.tokenizer);
  });
  prompt.spelled = std::ssize(chat.letters);
  if (echo) prompt.echo = asked_for.begun;
  if (prompt.tokens.empty()) fields.refuse("messages", "the conversation is an empty text");
  settle_length(fields, model, std::ssize(prompt.tokens), model.context, "messages", request);
  auto format = std::make_unique<ChatFormat>(model.model.tokenizer, logprobs);
  std::vector<TextPrompt> prompts;
  prompts.push_back(std::move(prompt));
  return std::make_unique<TextJob>(model, request, std::move(prompts), std::move(format), asked.id,
                                   asked.reply());
}

}  // namespace tapegrad::serve
