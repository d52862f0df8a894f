#pragma once

#include <string>
#include <string_view>

namespace tapegrad {

// RFC 4648, section 4, with padding.
std::string base64_of(std::string_view bytes);
// The inverse. Padding may be absent. Error, with `what`, if the text is not in base64.
std::string bytes_of_base64(std::string_view text, std::string_view what);

}  // namespace tapegrad
