#pragma once

#include <string_view>

namespace tapegrad::data {

// The regular expression for a "format" of JSON Schema's strings; empty if the format is unknown.
// Each string that it finds has the format. Of email, hostname, ipv6, uri and duration, it finds
// the usual forms alone.
std::string_view pattern_of_format(std::string_view format);

// True for the names that zod writes beside a "pattern", which says the same: cuid, starts_with, …
bool is_said_by_pattern(std::string_view format);

}  // namespace tapegrad::data
