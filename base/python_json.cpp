#include "tapegrad/base/python_json.h"

#include <cstddef>

namespace tapegrad {

std::string with_constants_quoted(std::string_view text) {
  std::string quoted;
  bool in_string = false;
  for (std::size_t i = 0, length = 1; i < text.size(); i += length) {
    const std::string_view rest = text.substr(i);
    length = in_string && rest[0] == '\\' ? 2 : 1;
    for (const std::string_view constant : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && length == 1 && rest.starts_with(constant)) length = constant.size();
    }
    if (length == 1 && rest[0] == '"') in_string = !in_string;
    const char* const quote = length > 2 ? "\"" : "";
    quoted += quote, quoted += rest.substr(0, length), quoted += quote;
  }
  return quoted;
}

}  // namespace tapegrad
