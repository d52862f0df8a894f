#pragma once

#include <functional>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// Lets a map of texts be searched by a view of one, without a copy.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

}  // namespace tapegrad::data
