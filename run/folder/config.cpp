#include "tapegrad/run/folder/config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/folder/internal/config_json.h"

namespace tapegrad::run {

namespace {

const char* const kHex = "hex";

}  // namespace

Json json_of_text(const std::string& text) {
  if (!find_invalid_utf8(text)) return text;
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{kHex, hex}};
}

bool is_text(const Json& json) {
  return json.is_string() ||
         (json.is_object() && json.size() == 1 && json.contains(kHex) && json[kHex].is_string());
}

std::string text_of_json(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto hex = json[kHex].get<std::string>();
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto byte = number_of<unsigned>(std::string_view(hex).substr(i, 2), 16);
    check(byte && hex.size() % 2 == 0, "'{}' is not a text in hexadecimal", hex);
    text += static_cast<char>(*byte);
  }
  return text;
}

Json json_of_value(const Value& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return json_of_text(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          Json list = Json::array();
          for (const std::string& text : v) list.push_back(json_of_text(text));
          return list;
        } else {
          return v;
        }
      },
      value);
}

Value value_of_json(std::string_view name, const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (is_text(json)) return text_of_json(json);
  check(json.is_array() && std::all_of(json.begin(), json.end(), is_text),
        "'{}' must be a value or a list of texts", name);
  std::vector<std::string> list;
  for (const Json& element : json) list.push_back(text_of_json(element));
  return list;
}

namespace {

Section section_of_json(const std::filesystem::path& path, const std::string& name,
                        const Json& json) {
  check(json.is_object(), "{}: '{}' must be an object", path.string(), name);
  Section section{name, {}};
  for (const auto& [key, value] : json.items()) {
    try {
      section.values.emplace_back(key, value_of_json(key, value));
    } catch (const Error& error) {
      fail("{}: {}", path.string(), error.what());
    }
  }
  return section;
}

// Gives values to options that older files lack where their default is not what such runs began
// with. Special tokens that a message spells were read as the tokens.
void complete_older(Section& section) {
  const auto has_paths = [&](std::string_view name) {
    const Value* const value = section.find(name);
    const auto* const paths =
        value == nullptr ? nullptr : std::get_if<std::vector<std::string>>(value);
    return paths != nullptr && !paths->empty();
  };
  const std::string name = "special_in_messages";
  if (section.name != "data" || section.find(name) != nullptr) return;
  if (has_paths("chat") || has_paths("preferences")) section.values.emplace_back(name, true);
}

}  // namespace

std::string value_text(const Value& value) { return json_text(json_of_value(value)); }

const Value* Section::find(std::string_view wanted) const {
  const auto it = std::find_if(values.begin(), values.end(),
                               [&](const auto& value) { return value.first == wanted; });
  return it == values.end() ? nullptr : &it->second;
}

void Config::set(Section section) {
  for (Section& other : sections) {
    if (other.name != section.name) continue;
    other = std::move(section);
    return;
  }
  sections.push_back(std::move(section));
}

const Section* Config::find(std::string_view name) const {
  const auto it = std::find_if(sections.begin(), sections.end(),
                               [&](const Section& section) { return section.name == name; });
  return it == sections.end() ? nullptr : &*it;
}

const Section& Config::at(std::string_view name, const std::filesystem::path& path) const {
  const Section* section = find(name);
  check(section != nullptr, "{}: '{}' is missing", path.string(), name);
  return *section;
}

Config read_config(const std::filesystem::path& path, std::string_view format) {
  Json json = read_json_object(path);
  Config config;
  std::int64_t version = 0;
  get(path, json, "format", config.format);
  get(path, json, "version", version);
  check(version == kConfigVersion,
        "{}: this config has version {}, and this program reads version {}. Version 1 is of "
        "tapegrad 0.1: use that release for it, or train the model again",
        path.string(), version, kConfigVersion);
  check(format.empty() || config.format == format,
        "{}: this is of a {} folder; a {} folder is needed", path.string(), config.format, format);
  for (const auto& [name, value] : json.items()) {
    if (name == "format" || name == "version") continue;
    config.sections.push_back(section_of_json(path, name, value));
    complete_older(config.sections.back());
  }
  return config;
}

bool has_own_config(const std::filesystem::path& folder) {
  try {
    const Json config = read_json_object(folder / kConfigFile);
    const auto format = config.find("format");
    return format != config.end() && format->is_string() &&
           format->get_ref<const std::string&>().starts_with("tapegrad-");
  } catch (const Error&) {
    return false;
  }
}

void write_config(const std::filesystem::path& path, const Config& config) {
  Json json = {{"format", config.format}, {"version", kConfigVersion}};
  for (const Section& section : config.sections) {
    Json& object = json[section.name] = Json::object();
    for (const auto& [name, value] : section.values) object[name] = json_of_value(value);
  }
  write_json(path, json);
}

}  // namespace tapegrad::run
