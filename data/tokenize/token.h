#pragma once

#include <cstdint>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

using Token = std::int32_t;

}  // namespace tapegrad::data
