#pragma once

#include <cstddef>
#include <string>

#include "tapegrad/apps/watch/history.h"

namespace tapegrad::watch {

// A figure of a report: one of History::kLayerValues of all layers, a row for each, over the steps.
// Larger values have stronger colours, on a logarithmic scale. Empty if there is no positive value.
std::string layer_map(const History& history, std::size_t what, const std::string& caption);

}  // namespace tapegrad::watch
