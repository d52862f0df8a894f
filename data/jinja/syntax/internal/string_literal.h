#pragma once

#include <string>
#include <string_view>

namespace tapegrad::data::jinja {

// The text between quotes in a template, with Python's escapes resolved; an
// unknown one stays as it is. Error for a broken \x, \u, \U or \N.
std::string unescaped(std::string_view text);

}  // namespace tapegrad::data::jinja
