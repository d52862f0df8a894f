#pragma once

#include <string>
#include <string_view>

namespace tapegrad {

// A text in which Infinity, -Infinity and NaN, which Python's json writes and JSON does not have,
// are strings of these names.
std::string with_constants_quoted(std::string_view text);

}  // namespace tapegrad
