#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad {

// JSON as Python's json writes it: with Infinity, -Infinity and NaN, which JSON does not have.

// A text in which these are strings of their names, with `mark` before the names.
std::string with_constants_quoted(std::string_view text, std::string_view mark = "");
// As parse_json_object(), of such a text.
Json parse_python_object(const std::filesystem::path& path, std::string_view text);
// The text, laid out anew, of the same object with a value for a member. Constants stay as they
// are.
std::string with_python_member(const std::filesystem::path& path, std::string_view text,
                               const std::string& name, const Json& value);

}  // namespace tapegrad
