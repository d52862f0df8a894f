#pragma once

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config_file.h"

namespace tapegrad::run {

// Rotary positions in a config.json, their scaling and what is beside them: what the key that
// stands for kRotation has. Errors as those of read_hf_config().

inline constexpr const char* kOriginalPositions = "original_max_position_embeddings";

void read_rotation(const HfConfig& file, const HfFamily& family, nn::DecoderConfig& config);
void set_rotation(const Family& family, const nn::DecoderConfig& config, Json& json);

}  // namespace tapegrad::run
