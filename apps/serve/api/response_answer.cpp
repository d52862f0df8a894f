#include "tapegrad/apps/serve/api/response_answer.h"

#include <utility>

#include "tapegrad/apps/http/message.h"
#include "tapegrad/apps/serve/api/chat_request.h"

namespace tapegrad::serve {
namespace {

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", 0}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

ResponseAnswer::ResponseAnswer(const TextRequest& request, const Asked& asked, Json echo)
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
                            : ResponseOutput::Emit()) {}

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
  if (!part.text.empty() || !part.tokens.empty()) {
    output_.add_text(part.text, logprobs_ ? logprobs_of(tokenizer_, part.tokens) : Json::array());
  }
  if (!part.finish) return;
  complete_ = *part.finish != "length";
  output_.end(complete_);
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
