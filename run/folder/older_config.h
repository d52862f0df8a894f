#pragma once

#include <filesystem>

#include "tapegrad/base/json_file.h"

namespace tapegrad::run {

// Turns what a config.json of tapegrad 0.2 says into today's words, with the same meaning. Error,
// naming `path`, for a value of another type.
void modernise(const std::filesystem::path& path, Json& config);

}  // namespace tapegrad::run
