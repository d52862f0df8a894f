#include "tapegrad/apps/serve/api/choices_format.h"

#include <utility>

namespace tapegrad::serve {
namespace {

std::string unnamed_event(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

}  // namespace

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
