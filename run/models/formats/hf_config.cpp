#include "tapegrad/run/models/formats/hf_config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/config_json.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/families/family_keys.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostConfigBytes = 1 << 20;

// An object of a config.json of theirs. A value that is absent or null is the one that transformers
// takes then.
class HfConfig {
 public:
  explicit HfConfig(const fs::path& folder)
      : path_(folder / kConfigFile),
        json_(parse_json_object(path_, read_file(path_, kMostConfigBytes))) {}

  template <class T>
  T get(const std::string& name, T absent) const {
    if (has_value(name)) tapegrad::get(path_, json_, name, absent);
    return absent;
  }
  // Error if it is absent.
  template <class T>
  T need(const std::string& name) const {
    check(has_value(name), "{}: there is no '{}'", path_.string(), name);
    return get<T>(name, {});
  }

  std::optional<Value> find(std::string_view key) const {
    const std::string name(key);
    if (!has_value(name)) return std::nullopt;
    return value_of_json(name, json_.at(name));
  }
  bool has(const std::string& name) const { return json_.contains(name); }
  bool has_value(const std::string& name) const { return has(name) && !json_.at(name).is_null(); }
  HfConfig part(const std::string& name) const {
    const Json& inner = json_.at(name);
    check(inner.is_object(), "{}: {} must be an object", path_.string(), name);
    return HfConfig(path_, inner);
  }
  std::string path() const { return path_.string(); }

 private:
  HfConfig(fs::path path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  fs::path path_;
  Json json_;
};

// transformers 5 has all of it in rope_parameters, 4 has rope_theta beside rope_scaling, whose type
// older files call "type".
void read_rotation(const HfConfig& file, nn::DecoderConfig& c) {
  c.rope_base = file.get("rope_theta", c.rope_base);
  const bool newer = file.has_value("rope_parameters");
  if (!newer && !file.has_value("rope_scaling")) return;
  const HfConfig part = file.part(newer ? "rope_parameters" : "rope_scaling");
  if (newer) c.rope_base = part.get("rope_theta", c.rope_base);
  const auto type = part.get<std::string>("rope_type", part.get<std::string>("type", "default"));
  const auto turned = part.get("partial_rotary_factor", 1.0);
  check(turned == 1.0, "{}: partial_rotary_factor {} is not supported, only 1", file.path(),
        turned);
  if (type == "default") return;
  check(type == "llama3",
        "{}: rotary positions of rope_type '{}' are not supported, only default and llama3",
        file.path(), type);
  c.rope_scaling = nn::RopeScalingKind::llama3;
  c.rope_factor = part.need<double>("factor");
  c.rope_low_freq_factor = part.need<double>("low_freq_factor");
  c.rope_high_freq_factor = part.need<double>("high_freq_factor");
  c.rope_original_positions = part.need<std::int64_t>("original_max_position_embeddings");
}

void set_rotation(const nn::DecoderConfig& c, Json& json) {
  Json rope = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (c.scaling()) {
    rope = {{"rope_type", "llama3"},
            {"rope_theta", c.rope_base},
            {"factor", c.rope_factor},
            {"low_freq_factor", c.rope_low_freq_factor},
            {"high_freq_factor", c.rope_high_freq_factor},
            {"original_max_position_embeddings", c.rope_original_positions}};
  }
  json["rope_parameters"] = rope;
  json["rope_theta"] = c.rope_base;  // as transformers 4 spells it
  json["rope_scaling"] = c.scaling() ? rope : Json();
}

void cut_to_window(const HfConfig& file, HfFamily::Window window, nn::DecoderConfig& c) {
  const bool slides =
      window == HfFamily::Window::unless_null
          ? file.has_value("sliding_window") || !file.has("sliding_window")
          : window == HfFamily::Window::if_asked && file.get("use_sliding_window", false);
  if (slides) c.block_size = std::min(c.block_size, file.get<std::int64_t>("sliding_window", 4096));
}

const Family& family_in(const HfConfig& file) {
  const auto type = file.need<std::string>("model_type");
  const auto family = std::find_if(families().begin(), families().end(),
                                   [&](const Family& f) { return f.name == type; });
  check(family != families().end(), "{}: model_type '{}' is not supported, only {}", file.path(),
        type, names_of_families([](const Family& f) { return f.name; }));
  for (const std::string& name : file.get("architectures", std::vector<std::string>())) {
    check(name == family->hf.model_class || name == family->hf.base_class,
          "{}: architectures: {} is not supported, only {}", file.path(), name,
          family->hf.model_class);
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
  const HfConfig file(folder);
  const Family& family = family_in(file);
  check(!file.has_value("quantization_config"), "{}: quantization_config is not supported",
        file.path());
  nn::DecoderConfig config = config_of_keys(family, family.hf.keys, file.path(), "",
                                            [&](std::string_view key) { return file.find(key); });
  if (key_of(family.hf.keys, kRotation) != nullptr) read_rotation(file, config);
  cut_to_window(file, family.hf.window, config);
  settle_config(family, file.path(), config);
  return {family, config};
}

void set_hf_config(const Family& family, const nn::DecoderConfig& config, Json& json) {
  const FamilyKey* const rotation = key_of(family.hf.keys, kRotation);
  for (const auto& [key, value] : values_of_keys(family.hf.keys, config)) {
    if (rotation != nullptr && key == rotation->key) {
      set_rotation(config, json);
    } else {
      json[std::string(key)] = json_of(value);
    }
  }
}

}  // namespace tapegrad::run
