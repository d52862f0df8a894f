#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// Bytes per second at which all threads together read this memory: the limit of what is computed
// from it. The best of some passes, which take about as long as reading it four times. (Copying and
// writing are slower.) 0 if there is none.
double read_rate(const std::vector<std::span<const std::byte>>& memory);

}  // namespace tapegrad
