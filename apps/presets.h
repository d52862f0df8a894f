#pragma once

#include <string>
#include <vector>

#include "apps/train_options.h"

namespace tapegrad::apps {

struct Preset {
  std::string name, summary;
  TrainOptions options;
};

// All presets; the first one is used when none is asked for.
const std::vector<Preset>& presets();

// UsageError, listing all, if there is none of that name.
const TrainOptions& preset_options(const std::string& name);

}  // namespace tapegrad::apps
