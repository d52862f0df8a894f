#pragma once

#include "tapegrad/apps/cli/option_table.h"
#include "tapegrad/apps/gpt/train_options.h"

namespace tapegrad::apps {

// train-gpt's; the first one is used when none is asked for.
const Presets<TrainOptions>& presets();

}  // namespace tapegrad::apps
