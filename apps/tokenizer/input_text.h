#pragma once

#include <string>

#include "tapegrad/base/file.h"

namespace tapegrad::tokenizers {

inline constexpr std::int64_t kMostText = std::int64_t{1} << 30;  // bytes

// The bytes of a file; - is stdin. Any bytes: nothing is left out or checked.
inline std::string input_text(const std::string& file) {
  return file == "-" ? read_stdin(kMostText) : read_file(file, kMostText);
}

}  // namespace tapegrad::tokenizers
