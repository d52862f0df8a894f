#pragma once

#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::data {

// The JSON of a part of a conversation. Error, naming the part, for what is none.
inline Json chat_json(std::string_view text, std::string_view what) {
  constexpr int kMostDepth = 64;
  try {
    return parse_json<Json>(text, kMostDepth);
  } catch (const Error& error) {
    fail("[chat template] {}: {}", what, error.what());
  }
}

}  // namespace tapegrad::data
