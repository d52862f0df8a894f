#include "tapegrad/base/text/internal/name_pattern.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad {

bool fits_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void check_pattern(std::string_view option, std::string_view pattern) {
  constexpr std::size_t most_bytes = 200, most_stars = 8;
  check(!pattern.empty() && std::all_of(pattern.begin(), pattern.end(),
                                        [](char c) { return c > 0x20 && c < 0x7F; }),
        "{}: '{}' is not a pattern of letters, digits and signs", option, pattern);
  check(pattern.size() <= most_bytes && std::count(pattern.begin(), pattern.end(), '*') <=
                                            static_cast<std::ptrdiff_t>(most_stars),
        "{}: '{}' has more than {} bytes or {} stars", option, pattern, most_bytes, most_stars);
}

std::string first_names(const std::vector<std::string>& names, std::size_t most) {
  const std::size_t shown = std::min(names.size(), most);
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(shown);
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > shown ? ", …" : "");
}

}  // namespace tapegrad
