#include "tapegrad/apps/serve/api/responses/response_answer.h"

#include <utility>

#include "tapegrad/apps/http/message.h"
#include "tapegrad/apps/serve/api/chat_request.h"

namespace tapegrad::serve {
namespace {

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", 0}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

ResponseAnswer::ResponseAnswer(const TextRequest& request, const Asked& asked, Json echo,
                               const Tools& tools)
    : tokenizer_(asked.model.model.tokenizer),
      logprobs_(request.options.logprobs),
      head_{{"id", "resp_" + asked.id},
            {"object", "response"},
            {"created_at", seconds_since_1970()},
            {"model", request.model},
            {"system_fingerprint", fingerprint()},
            {"seed", static_cast<std::int64_t>(request.seed)}},
      echo_(std::move(echo)),
      output_(asked.id, request.stream
                            ? [this](const char* type, const Json& json) { event(type, json); }
                            : ResponseOutput::Emit()) {
  for (const FunctionTool& function : tools.functions) {
    if (!function.space.empty()) spaces_.emplace(function.name, function.space);
  }
}

Json ResponseAnswer::whole(const std::vector<TextPart>& texts, const Usage& usage) {
  add(texts.front());
  return response(status(), usage);
}

std::string ResponseAnswer::begin(std::size_t) {
  for (const char* type : {"response.created", "response.in_progress"}) {
    event(type, {{"response", response("in_progress", std::nullopt)}});
  }
  return std::exchange(events_, {});
}

std::string ResponseAnswer::delta(const TextPart& part) {
  add(part);
  return std::exchange(events_, {});
}

std::string ResponseAnswer::end(const Usage& usage) {
  event(complete_ ? "response.completed" : "response.incomplete",
        {{"response", response(status(), usage)}});
  return std::exchange(events_, {});
}

std::string ResponseAnswer::fail(const Refusal& why, const Usage& usage) {
  Json failed = response("failed", usage);
  failed["error"] = {{"code", why.status >= 500 ? "server_error" : "invalid_prompt"},
                     {"message", why.json()["error"]["message"]}};
  event("response.failed", {{"response", std::move(failed)}});
  return std::exchange(events_, {});
}

void ResponseAnswer::add(const TextPart& part) {
  if (logprobs_) tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
  for (const data::AnswerPart& one : part.parts) add_part(one);
  if (!part.finish) return;
  if (begins_ && !tokens_.empty()) output_.add_text("", logprobs_until(INT64_MAX));
  complete_ = *part.finish != "length";
  output_.end(complete_);
}

void ResponseAnswer::add_part(const data::AnswerPart& part) {
  using Kind = data::AnswerPart::Kind;
  begins_ = begins_ && part.kind == Kind::content;
  if (part.kind == Kind::content) {
    characters_ += characters_of(part.text);
    output_.add_text(part.text, begins_ ? logprobs_until(characters_) : Json::array());
  } else if (part.kind == Kind::reasoning) {
    output_.add_reasoning(part.text);
  } else if (part.kind == Kind::call_begin) {
    Json call = {{"call_id", part.id}, {"name", part.name}};
    if (const auto space = spaces_.find(part.name); space != spaces_.end()) {
      call["namespace"] = space->second;
      call["name"] = part.name.substr(called_name(space->second, "").size());
    }
    output_.begin_call(call);
  } else if (part.kind == Kind::call_arguments) {
    output_.add_arguments(part.text);
  } else {
    output_.end_item(true);
  }
}

// Of the tokens of the message that the answer begins with. The text of others, behind reasoning,
// say, has no known place among all tokens.
Json ResponseAnswer::logprobs_until(std::int64_t character) {
  std::vector<ShownToken> shown;
  while (!tokens_.empty() && tokens_.front().offset < character) {
    shown.push_back(std::move(tokens_.front()));
    tokens_.pop_front();
  }
  return logprobs_of(tokenizer_, shown);
}

Json ResponseAnswer::response(std::string_view status, const std::optional<Usage>& usage) const {
  Json json = head_;
  json["status"] = status;
  json["error"] = nullptr;
  json["incomplete_details"] =
      status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json();
  json.update(echo_);
  json["output"] = output_.items();
  json["usage"] = usage ? response_usage(*usage) : Json();
  return json;
}

void ResponseAnswer::event(const char* type, const Json& members) {
  Json json = {{"type", type}, {"sequence_number", next_number_++}};
  json.update(members);
  events_ += http::event(type, json_text(json));
}

}  // namespace tapegrad::serve
