#include "tapegrad/apps/serve/api/chat_completions.h"

#include <utility>
#include <vector>

#include "tapegrad/apps/serve/api/chat_request.h"
#include "tapegrad/apps/serve/api/choices_format.h"

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

class ChatFormat : public ChoicesFormat {
 public:
  ChatFormat(const TextRequest& request, const Asked& asked)
      : ChoicesFormat(request, "chatcmpl-" + asked.id,
                      {"chat.completion", "chat.completion.chunk"}),
        tokenizer_(asked.model.model.tokenizer),
        logprobs_(request.options.logprobs) {}

 private:
  Json choice(const TextPart& part) const override {
    return {{"index", part.index},
            {"message", {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}}},
            {"logprobs", logprobs(part)},
            {"finish_reason", finish(part)}};
  }
  std::optional<Json> first(std::size_t index) const override {
    return Json{{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}};
  }
  Json piece(const TextPart& part) const override {
    return {{"index", part.index},
            {"delta", part.finish ? Json::object() : Json{{"content", part.text}}},
            {"logprobs", part.finish ? Json() : logprobs(part)},
            {"finish_reason", finish(part)}};
  }
  static Json finish(const TextPart& part) { return part.finish ? Json(*part.finish) : Json(); }
  Json logprobs(const TextPart& part) const {
    if (!logprobs_) return {};
    return {{"content", logprobs_of(tokenizer_, part.tokens)}, {"refusal", nullptr}};
  }

  const data::Tokenizer& tokenizer_;
  const bool logprobs_;
};

}  // namespace

std::unique_ptr<Job> chat_completions(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInChat, *asked.ignored);
  TextRequest request;
  read_chat_request(fields, asked, request);
  read_max_tokens(fields, "max_completion_tokens", request);
  nn::GenerateOptions& options = request.options;
  fields.boolean("logprobs", options.logprobs);
  fields.integer("top_logprobs", options.top_logprobs, 0, kMostTop);
  if (options.top_logprobs > 0 && !options.logprobs) {
    fields.refuse("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  bool echo = false;
  fields.boolean("echo", echo);
  const ChatMessages messages = read_messages(fields, asked);
  check_holds(fields, messages.tools);
  ChatText text = chat_text(fields, asked, messages, "response_format", request);
  if (echo && !text.begun) {
    fields.refuse("echo", "'echo' needs an answer that goes on: 'continue_final_message': true");
  }
  if (echo) text.prompt.echo = text.begun;
  auto format = std::make_unique<ChatFormat>(request, asked);
  std::vector<TextPrompt> prompts;
  prompts.push_back(std::move(text.prompt));
  return std::make_unique<TextJob>(model, request, std::move(prompts), std::move(format),
                                   asked.reply());
}

}  // namespace tapegrad::serve
