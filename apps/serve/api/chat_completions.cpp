#include "tapegrad/apps/serve/api/chat_completions.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/serve/api/chat_request.h"
#include "tapegrad/apps/serve/api/choices_format.h"
#include "tapegrad/apps/serve/api/tools/answer_reading.h"

namespace tapegrad::serve {
namespace {

using Kind = data::AnswerPart::Kind;

// What a call begins with.
Json call_json(const data::AnswerPart& begin) {
  return {{"id", begin.id},
          {"type", "function"},
          {"function", {{"name", begin.name}, {"arguments", ""}}}};
}

// The message of an answer. Without a content there are calls alone, or no word at all.
Json answer_message(const std::vector<data::AnswerPart>& parts) {
  std::string content, reasoning;
  Json calls = Json::array();
  for (const data::AnswerPart& part : parts) {
    if (part.kind == Kind::content) content += part.text;
    if (part.kind == Kind::reasoning) reasoning += part.text;
    if (part.kind == Kind::call_begin) calls.push_back(call_json(part));
    if (part.kind == Kind::call_arguments) {
      calls.back()["function"]["arguments"].get_ref<std::string&>() += part.text;
    }
  }
  const bool null = content.empty() && !calls.empty();
  Json message = {{"role", "assistant"},
                  {"content", null ? Json() : Json(std::move(content))},
                  {"refusal", nullptr}};
  if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

// What a part adds to the message: nothing if it ends a call.
std::optional<Json> delta_of(const data::AnswerPart& part) {
  if (part.kind == Kind::call_end) return std::nullopt;
  if (part.kind == Kind::content) return Json{{"content", part.text}};
  if (part.kind == Kind::reasoning) return Json{{"reasoning_content", part.text}};
  Json call = {{"index", part.index}};
  if (part.kind == Kind::call_begin) {
    call.update(call_json(part));
  } else {
    call["function"] = {{"arguments", part.text}};
  }
  return Json{{"tool_calls", Json::array({std::move(call)})}};
}

class ChatFormat : public ChoicesFormat {
 public:
  ChatFormat(const TextRequest& request, const Asked& asked)
      : ChoicesFormat(request, "chatcmpl-" + asked.id,
                      {"chat.completion", "chat.completion.chunk"}),
        tokenizer_(asked.model.model.tokenizer),
        logprobs_(request.options.logprobs),
        prompt_logprobs_(request.prompt_logprobs) {}

  bool shares_prompt_logprobs() const override { return true; }
  Json whole(const std::vector<TextPart>& texts, const Usage& usage) override {
    Json json = ChoicesFormat::whole(texts, usage);
    if (prompt_logprobs_) {
      json["prompt_logprobs"] =
          prompt_logprobs_of(tokenizer_, texts.front().prompt, *prompt_logprobs_);
    }
    return json;
  }

 private:
  Json choice(const TextPart& part) const override {
    return {{"index", part.index},
            {"message", answer_message(part.parts)},
            {"logprobs", logprobs(part)},
            {"finish_reason", part.finish ? Json(*part.finish) : Json()}};
  }
  std::optional<Json> first(std::size_t index) const override {
    return piece(index, {{"role", "assistant"}, {"content", ""}});
  }
  std::vector<Json> pieces(const TextPart& part) const override {
    std::vector<Json> list;
    if (part.finish) {
      list.push_back(piece(part.index, Json::object()));
      list.back()["finish_reason"] = *part.finish;
      return list;
    }
    for (const data::AnswerPart& said : part.parts) {
      if (auto delta = delta_of(said)) list.push_back(piece(part.index, std::move(*delta)));
    }
    if (part.tokens.empty()) return list;
    if (list.empty()) list.push_back(piece(part.index, {{"content", ""}}));
    list.front()["logprobs"] = logprobs(part);
    return list;
  }
  static Json piece(std::size_t index, Json delta) {
    return {{"index", index},
            {"delta", std::move(delta)},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }
  // Of all tokens, those of reasoning and of calls as well.
  Json logprobs(const TextPart& part) const {
    if (!logprobs_) return {};
    return {{"content", logprobs_of(tokenizer_, part.tokens)}, {"refusal", nullptr}};
  }

  const data::Tokenizer& tokenizer_;
  const bool logprobs_;
  const std::optional<std::int64_t> prompt_logprobs_;
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
  read_prompt_logprobs(fields, request);
  bool echo = false;
  fields.boolean("echo", echo);
  const ChatMessages messages = read_messages(fields, asked);
  ChatText text = chat_text(fields, asked, messages, "response_format", request);
  if (echo && !text.begun) {
    fields.refuse("echo", "'echo' needs an answer that goes on: 'continue_final_message': true");
  }
  if (echo) {
    text.prompt.echo = text.begun;
    text.prompt.reading = answer_reading(*model.chat, messages.tools, "");
  }
  return answer_job(asked, request, std::move(text.prompt),
                    std::make_unique<ChatFormat>(request, asked));
}

}  // namespace tapegrad::serve
