#pragma once

#include <cstdint>

namespace tapegrad::data {

using Token = int32_t;

}  // namespace tapegrad::data
