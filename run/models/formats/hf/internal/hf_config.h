#pragma once

#include <filesystem>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// True if config.json has a model_type, as those of Hugging Face's have and ours have not.
bool has_hf_config(const std::filesystem::path& folder);

struct HfModel {
  const Family& family;
  nn::DecoderConfig config;
  bool wrapped = false;  // it is a part of another model: see HfFamily::wrapper
};
// The model that a config.json describes, of one of the families. Values that are absent are those
// that transformers 5 takes. Error, naming key and
// value, for what changes the result and is not known here, other scalings of rotary positions for
// example.
HfModel read_hf_config(const std::filesystem::path& folder);

// The inverse: sets the keys of the family in a config.json.
void set_hf_config(const Family& family, const nn::DecoderConfig& config, Json& json);

}  // namespace tapegrad::run
