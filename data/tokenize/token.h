#pragma once

#include <cstdint>

namespace tapegrad::data {

using Token = std::int32_t;

}  // namespace tapegrad::data
