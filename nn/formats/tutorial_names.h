#pragma once

#include "tapegrad/nn/name_map.h"

namespace tapegrad::nn {

// The names that a widespread PyTorch tutorial gives the parameters of its encoder–decoder
// ("transformer.encoder.layers.0.attention.wq.weight"): with this map, a Transformer is read from
// the tutorial's state_dict.
NameMap tutorial_names();

}  // namespace tapegrad::nn
