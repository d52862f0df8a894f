#pragma once

#include "tapegrad/base/json_file.h"

namespace tapegrad::run {

// Turns what a config.json of tapegrad 0.2 says into today's words, with the same meaning.
void modernise(Json& config);

}  // namespace tapegrad::run
