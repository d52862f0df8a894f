#include "tapegrad/run/models/formats/hf/internal/hf_config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/formats/hf/internal/hf_blocks.h"
#include "tapegrad/run/models/formats/hf/internal/hf_rotation.h"
#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

bool is_wrapped(const HfConfig& file, const Family& family) {
  return !family.hf.wrapper.empty() && file.get<std::string>("model_type", "") == family.hf.wrapper;
}

const Family& family_in(const HfConfig& file) {
  const auto type = file.need<std::string>("model_type");
  const auto family = std::find_if(families().begin(), families().end(), [&](const Family& f) {
    return f.name == type || is_wrapped(file, f);
  });
  check(family != families().end(), "{}: model_type '{}' is not supported, only {}", file.path(),
        type, names_of_families([](const Family& f) { return f.name; }));
  for (const std::string& name : file.get("architectures", std::vector<std::string>())) {
    const bool wrapped = is_wrapped(file, *family);
    const std::string_view own = wrapped ? family->hf.wrapper_class : family->hf.model_class;
    check(name == own || (!wrapped && name == family->hf.base_class),
          "{}: architectures: {} is not supported, only {}", file.path(), name, own);
  }
  return *family;
}

}  // namespace

bool has_hf_config(const fs::path& folder) {
  const fs::path path = folder / kConfigFile;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  try {
    return HfConfig(folder).has("model_type");
  } catch (const Error&) {
    return false;  // who reads it as a run's says what is wrong
  }
}

HfModel read_hf_config(const fs::path& folder) {
  const HfConfig whole(folder);
  const Family& family = family_in(whole);
  const bool wrapped = is_wrapped(whole, family);
  // What the part does not say, the whole may.
  const HfConfig file = wrapped ? whole.updated_with(whole.part("text_config")) : whole;
  const auto quantiser =
      file.part("quantization_config").get<std::string>("quant_method", "unknown");
  check(!file.has_value("quantization_config") || quantiser == family.hf.quantised_by,
        "{}: quantization_config '{}' is not supported: {}", file.path(), quantiser,
        kQuantisedRemedy);
  nn::DecoderConfig config = config_of_keys(family, family.hf.keys, file.path(), "",
                                            [&](std::string_view key) { return file.find(key); });
  if (key_of(family.hf.keys, kRotation) != nullptr) {
    read_rotation(file, family.hf, config);
  }
  if (key_of(family.hf.keys, kRotaryBlocks) != nullptr) read_rotary_blocks(file, config);
  if (key_of(family.hf.keys, kDenseBlocks) != nullptr) read_dense_blocks(file, config);
  if (key_of(family.hf.keys, kLeadingDense) != nullptr) read_leading_dense(file, config);
  if (key_of(family.hf.keys, kMixers) != nullptr) read_mixers(file, family, config);
  if (key_of(family.hf.keys, kAdjustedInner) != nullptr) read_adjusted_inner(file, config);
  if (key_of(family.hf.keys, kSharedInner) != nullptr) read_shared_inner(file, config);
  if (key_of(family.hf.keys, kMambaWidth) != nullptr) read_mamba_width(file, config);
  if (key_of(family.hf.keys, kScaleLists) != nullptr) read_scale_lists(file, config);
  if (key_of(family.hf.keys, kSingleParts) != nullptr) read_single_parts(file, config);
  read_window(file, family.hf.window, config);
  if (family.follow != nullptr) family.follow(config);
  if (family.hf.settle != nullptr) family.hf.settle(config);
  settle_config(family, file.path(), config);
  return {family, config, wrapped};
}

void set_hf_config(const Family& family, const nn::DecoderConfig& config, Json& json) {
  const auto stands_for = [&](std::string_view key, std::string_view option) {
    const FamilyKey* const own = key_of(family.hf.keys, option);
    return own != nullptr && own->key == key;
  };
  for (const auto& [key, value] : values_of_keys(family.hf.keys, config)) {
    if (stands_for(key, kRotation)) {
      set_rotation(family, config, json);
    } else if (stands_for(key, kWindows)) {
      set_windows(family, config.with_defaults(), json);
    } else if (stands_for(key, kRotaryBlocks)) {
      set_rotary_blocks(config, json);
    } else if (stands_for(key, kDenseBlocks)) {
      set_dense_blocks(config, json);
    } else if (stands_for(key, kLeadingDense)) {
      set_leading_dense(config, json);
    } else if (stands_for(key, kMixers)) {
      set_mixers(family, config, json);
    } else if (stands_for(key, kAdjustedInner)) {
      set_adjusted_inner(config, json);
    } else if (stands_for(key, kSharedInner)) {
      set_shared_inner(config, json);
    } else if (stands_for(key, kMambaWidth)) {
      set_mamba_width(config, json);
    } else if (stands_for(key, kScaleLists)) {
      set_scale_lists(config, json);
    } else if (stands_for(key, kSingleParts)) {
      set_single_parts(config, json);
    } else {
      json[std::string(key)] = json_of_value(value);
    }
  }
  // The one at the top wins, and is the only one that transformers 4 reads.
  if (config.rope_scaling == nn::RopeScalingKind::longrope) {
    json[kOriginalPositions] = config.rope_original_positions;
  }
}

}  // namespace tapegrad::run
