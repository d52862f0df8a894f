#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad {

// Patterns of names, such as "wte*" or "h.[0-3].mlp.*": * is any text, ? any character, [0-3] one
// of these (POSIX fnmatch).
bool fits_pattern(const std::string& pattern, const std::string& name);

// Error, which begins with `option`, for an empty pattern, one with other bytes than printable
// ASCII, and one that takes a matcher long: many *, which no name of a parameter needs.
void check_pattern(std::string_view option, std::string_view pattern);

// The first names of a long list, for messages: "a, b, c, …".
std::string first_names(const std::vector<std::string>& names, std::size_t most = 5);

}  // namespace tapegrad
