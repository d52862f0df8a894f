#include "tapegrad/data/tokenize/hf/internal/hf_json.h"

#include <cstdint>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/json/internal/python_json.h"

namespace tapegrad::data {

using nlohmann::json;

json json_settings(const std::filesystem::path& path) {
  constexpr std::int64_t most_bytes = 16 << 20;
  constexpr int depth = 64;
  if (!path_exists(path)) return json::object();
  try {
    json file = parse_json<json>(with_constants_quoted(read_file(path, most_bytes)), depth);
    return file.is_object() ? file : json::object();
  } catch (const Error&) {
    return json::object();
  }
}

const json& json_member(const json& object, const char* name) {
  static const json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string json_text_at(const json& object, const char* name) {
  const json& value = json_member(object, name);
  check(value.is_string(), "\"{}\" must be a text, not {}", name, value.type_name());
  return value.get<std::string>();
}

bool json_flag(const json& object, const char* name, bool absent) {
  const json& value = json_member(object, name);
  if (value.is_null()) return absent;
  check(value.is_boolean(), "\"{}\" must be true or false, not {}", name, value.type_name());
  return value.get<bool>();
}

void unsupported(std::string_view what, const json& value) {
  const std::string shown = sorted_json_text(value);
  fail("{} is not supported: {}", what, shown.substr(0, 200));
}

std::vector<json> json_parts(const json& value, const char* name) {
  if (value.is_null()) return {};
  check(value.is_object(), "\"{}\" must be an object, not {}", name, value.type_name());
  if (json_text_at(value, "type") != "Sequence") return {value};
  const json& list = json_member(value, name);
  check(list.is_array(), "a Sequence needs a list \"{}\"", name);
  std::vector<json> parts;
  for (const json& part : list) {
    for (json& inner : json_parts(part, name)) parts.push_back(std::move(inner));
  }
  return parts;
}

}  // namespace tapegrad::data
