#include "tapegrad/run/models/formats/internal/pre_tokenizer_steps.h"

namespace tapegrad::run {

using nlohmann::json;

const json& member(const json& object, const char* name) {
  static const json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool flag(const json& object, const char* name, bool absent) {
  const json& value = member(object, name);
  return value.is_null() ? absent : value.get<bool>();
}

std::string steps_of(const json& part) {
  if (part.is_null()) return "";
  const auto type = part.at("type").get<std::string>();
  std::string steps = type;
  if (type == "Sequence") {
    steps.clear();
    for (const char* list : {"pretokenizers", "normalizers"}) {
      for (const json& inner : member(part, list)) {
        steps += (steps.empty() ? "" : " ") + steps_of(inner);
      }
    }
  } else if (type == "ByteLevel") {
    if (flag(part, "use_regex", true)) steps += "+regex";
    if (flag(part, "add_prefix_space", true)) steps += "+prefix";
  } else if (type == "Digits") {
    if (!flag(part, "individual_digits", false)) steps += "-together";
  } else if (type == "Split") {
    const auto behavior = part.at("behavior").get<std::string>();
    if (behavior != "Isolated") steps += "-" + behavior;
    if (flag(part, "invert", false)) steps += "-inverted";
    const json& pattern = part.at("pattern");
    steps += pattern.contains("Regex") ? ":" + pattern["Regex"].get<std::string>()
                                       : "=" + pattern.at("String").get<std::string>();
  }
  return steps;
}

json byte_level_step(bool regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", regex}};
}

json pre_tokenizer_of(const KnownPreTokenizer& known) {
  json byte_level = byte_level_step(known.steps.ends_with("+regex"));
  json parts = json::array();
  if (known.steps.starts_with("Digits")) {
    parts.push_back({{"type", "Digits"}, {"individual_digits", true}});
  } else if (known.steps.starts_with("Split:")) {
    const std::string_view pattern = known.steps.substr(6, known.steps.rfind(' ') - 6);
    parts.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  parts.push_back(byte_level);
  return parts.size() == 1 ? byte_level : json{{"type", "Sequence"}, {"pretokenizers", parts}};
}

}  // namespace tapegrad::run
