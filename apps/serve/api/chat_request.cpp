#include "tapegrad/apps/serve/api/chat_request.h"

#include <memory>
#include <optional>
#include <utility>

#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/apps/serve/api/tools/answer_reading.h"
#include "tapegrad/apps/serve/api/tools/held_calls.h"
#include "tapegrad/apps/serve/api/tools/reasoning_budget.h"
#include "tapegrad/data/chat/render_chat.h"

namespace tapegrad::serve {
namespace {

Json token_json(const data::Tokenizer& tokenizer, const nn::TokenLogprob& token) {
  const std::string bytes = tokenizer.token_bytes(token.token);
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {
      {"token", bytes}, {"logprob", shown_logprob(token.logprob)}, {"bytes", std::move(numbers)}};
}

// The most tokens of reasoning: the request's, which cannot be more than the server's. A template
// that reads the field is told of it.
std::optional<std::int64_t> read_budget(Fields& fields, const ServedModel& model, Json& variables) {
  constexpr const char* kField = "thinking_budget";
  std::optional<std::int64_t> budget = model.reasoning_budget;
  if (!model.chat || !data::reasoning_marks_of(*model.chat)) return std::nullopt;
  std::optional<std::int64_t> asked;
  fields.integer(kField, asked, 0, INT32_MAX);
  if (asked && (!budget || *asked < *budget)) budget = asked;
  if (budget) variables[kField] = *budget;
  return budget;
}

}  // namespace

void read_chat_request(Fields& fields, const Asked& asked, TextRequest& request) {
  read_text_request(fields, asked.model, asked.new_seed, request);
  // A model's files may name the end of a text alone, and not that of an answer.
  if (!request.ignore_eos) sampling::add_ends(request.options, asked.model.answer_ends);
}

ChatText chat_text(Fields& fields, const Asked& asked, ChatMessages messages,
                   std::string_view format, TextRequest& request) {
  const ServedModel& model = asked.model;
  const std::optional<std::int64_t> budget = read_budget(fields, model, messages.variables);
  // What is begun cannot be taken back by what an answer must be as a whole.
  const bool is_free = request.options.mask == nullptr;
  ChatPrompt asked_for =
      chat_prompt(fields, asked, messages, is_free ? BegunAnswer::goes_on : BegunAnswer::ends);
  const data::RenderedChat& chat = asked_for.chat;
  fields.end();
  if (asked_for.begun && !is_free) {
    fields.refuse(format, fmt::format("'{}' has no meaning for an answer that is begun: "
                                      "'continue_final_message'",
                                      format));
  }
  // The template has what a text begins with.
  TextPrompt prompt;
  prompt.tokens = encoded(fields, messages.field, model, chat.text, [&](std::string_view) {
    return data::tokens_of(chat, model.model.tokenizer);
  });
  prompt.spelled = std::ssize(chat.letters);
  prompt.reading = answer_reading(*model.chat, messages.tools, chat.text, asked_for.begun);
  hold_calls(fields, asked, messages.tools, request, *prompt.reading);
  if (budget && prompt.reading->reasoning) {
    request.options.mask = std::make_shared<const ReasoningBudget>(
        model.model.tokenizer, *prompt.reading->reasoning, prompt.reading->within_reasoning,
        *budget, request.options.mask);
  }
  if (prompt.tokens.empty()) fields.refuse(messages.field, "the conversation is an empty text");
  settle_length(fields, model, std::ssize(prompt.tokens), model.context, messages.field, request);
  return {std::move(prompt), std::move(asked_for.begun)};
}

std::unique_ptr<Job> answer_job(const Asked& asked, const TextRequest& request, TextPrompt prompt,
                                std::unique_ptr<TextFormat> format) {
  std::vector<TextPrompt> prompts;
  prompts.push_back(std::move(prompt));
  return std::make_unique<TextJob>(asked.model, request, std::move(prompts), std::move(format),
                                   asked.reply());
}

Json logprobs_of(const data::Tokenizer& tokenizer, const std::vector<ShownToken>& tokens) {
  Json list = Json::array();
  for (const ShownToken& shown : tokens) {
    Json json = token_json(tokenizer, {shown.token.token, shown.token.logprob});
    json["top_logprobs"] = Json::array();
    for (const nn::TokenLogprob& t : shown.token.top) {
      json["top_logprobs"].push_back(token_json(tokenizer, t));
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace tapegrad::serve
