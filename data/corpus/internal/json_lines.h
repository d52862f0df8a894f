#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data {

// The text that a line of JSON lines, an object, has in `field`; nullopt if it is no such object.
// Other fields are read over, and take no memory. Error if the JSON is nested too deeply, or if the
// text has a NUL.
std::optional<std::string> text_of_json_line(std::string_view line, const std::string& field);

// The first keys of a line's object, for a message; nullopt if the line is no object.
std::optional<std::vector<std::string>> keys_of_json_line(std::string_view line);

}  // namespace tapegrad::data
