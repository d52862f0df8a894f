#include "tapegrad/base/json/internal/python_json.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace tapegrad {
namespace {

constexpr std::string_view kConstants[] = {"-Infinity", "Infinity", "NaN"};
// A control character, as JSON writes it: no text of a file of settings begins so.
constexpr std::string_view kMark = "\\u0001";

}  // namespace

std::string with_constants_quoted(std::string_view text, std::string_view mark) {
  std::string quoted;
  bool in_string = false;
  for (std::size_t i = 0, length = 1; i < text.size(); i += length) {
    const std::string_view rest = text.substr(i);
    length = in_string && rest[0] == '\\' ? 2 : 1;
    for (const std::string_view constant : kConstants) {
      if (!in_string && length == 1 && rest.starts_with(constant)) length = constant.size();
    }
    if (length == 1 && rest[0] == '"') in_string = !in_string;
    if (length > 2) {
      quoted.append("\"").append(mark).append(rest.substr(0, length)).append("\"");
    } else {
      quoted += rest.substr(0, length);
    }
  }
  return quoted;
}

Json parse_python_object(const std::filesystem::path& path, std::string_view text) {
  return parse_json_object(path, with_constants_quoted(text));
}

std::string with_python_member(const std::filesystem::path& path, std::string_view text,
                               const std::string& name, const Json& value) {
  Json json = parse_json_object(path, with_constants_quoted(text, kMark));
  json[name] = value;
  std::string changed = json_text(json, 2) + "\n";
  for (const std::string_view constant : kConstants) {
    const std::string quoted = with_constants_quoted(constant, kMark);
    for (std::size_t at = 0; (at = changed.find(quoted, at)) != std::string::npos;) {
      changed.replace(at, quoted.size(), constant);
    }
  }
  return changed;
}

}  // namespace tapegrad
