#include "tapegrad/apps/serve/api/choices_format.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tapegrad::serve {
namespace {

std::string unnamed_event(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

Json place_json(const data::Tokenizer& tokenizer, const nn::TokenLogprob& token,
                std::int64_t rank) {
  return {{"logprob", shown_logprob(token.logprob)},
          {"rank", rank},
          {"decoded_token", legacy_token(tokenizer.token_bytes(token.token))}};
}

}  // namespace

std::span<const nn::TokenLogprob> first_of(const std::vector<nn::TokenLogprob>& top,
                                           std::int64_t count) {
  return std::span(top).first(std::min(top.size(), static_cast<std::size_t>(count)));
}

Json prompt_logprobs_of(const data::Tokenizer& tokenizer, std::span<const nn::NewToken> scores,
                        std::int64_t count) {
  Json list = Json::array({nullptr});
  for (const nn::NewToken& score : scores) {
    Json tokens = {{std::to_string(score.token),
                    place_json(tokenizer, {score.token, score.logprob}, score.rank)}};
    std::int64_t rank = 0;
    for (const nn::TokenLogprob& t : first_of(score.top, count)) {
      tokens[std::to_string(t.token)] = place_json(tokenizer, t, ++rank);
    }
    list.push_back(std::move(tokens));
  }
  return list;
}

ChoicesFormat::ChoicesFormat(const TextRequest& request, std::string id, const Objects& objects)
    : id_(std::move(id)),
      model_(request.model),
      objects_(objects),
      created_(seconds_since_1970()),
      seed_(static_cast<std::int64_t>(request.seed)),
      include_usage_(request.include_usage) {}

Json ChoicesFormat::head(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", fingerprint()},
          {"seed", seed_}};
}

Json ChoicesFormat::whole(const std::vector<TextPart>& texts, const Usage& usage) {
  Json json = head(objects_.answer);
  json["choices"] = Json::array();
  for (const TextPart& text : texts) json["choices"].push_back(choice(text));
  json["usage"] = usage.json();
  return json;
}

std::string ChoicesFormat::event(const Json& choices, const Json& usage) const {
  Json json = head(objects_.event);
  json["choices"] = choices;
  if (include_usage_) json["usage"] = usage;
  return unnamed_event(json);
}

std::string ChoicesFormat::begin(std::size_t index) {
  const auto json = first(index);
  return json ? event(Json::array({*json}), {}) : "";
}

std::string ChoicesFormat::delta(const TextPart& part) {
  std::string events;
  for (Json& piece : pieces(part)) events += event(Json::array({std::move(piece)}), {});
  return events;
}

std::string ChoicesFormat::end(const Usage& usage) {
  const std::string last = include_usage_ ? event(Json::array(), usage.json()) : "";
  return last + "data: [DONE]\n\n";
}

std::string ChoicesFormat::fail(const Refusal& why, const Usage&) {
  return unnamed_event(why.json());
}

}  // namespace tapegrad::serve
