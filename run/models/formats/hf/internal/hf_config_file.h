#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::run {

// What layer_types call blocks.
inline constexpr const char *kSlidingLayer = "sliding_attention", *kFullLayer = "full_attention",
                            *kConvLayer = "conv", *kLinearLayer = "linear_attention",
                            *kMambaLayer = "mamba", *kAttentionLayer = "attention";

// An object of a config.json of theirs. A value that is absent or null is the one that transformers
// takes then.
class HfConfig {
 public:
  explicit HfConfig(const std::filesystem::path& folder)
      : path_(folder / kConfigFile),
        json_(parse_python_object(path_, read_file(path_, kMostBytes))) {}

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
    if (!has(name)) return std::nullopt;
    return value_of_json(name, json_.at(name));
  }
  bool has(const std::string& name) const { return json_.contains(name); }
  bool has_value(const std::string& name) const { return has(name) && !json_.at(name).is_null(); }
  // An object within it; one that is absent or null is empty.
  HfConfig part(const std::string& name) const {
    if (!has_value(name)) return HfConfig(path_, Json::object());
    const Json& inner = json_.at(name);
    check(inner.is_object(), "{}: {} must be an object", path_.string(), name);
    return HfConfig(path_, inner);
  }
  bool empty() const { return json_.empty(); }
  HfConfig updated_with(const HfConfig& other) const {
    Json json = json_;
    json.update(other.json_);
    return HfConfig(path_, std::move(json));
  }
  // JSON of a value, empty if it is absent or null. Constants of Python's are texts.
  std::string text(const std::string& name) const {
    return has_value(name) ? json_.at(name).dump() : "";
  }
  std::string path() const { return path_.string(); }

 private:
  HfConfig(std::filesystem::path path, Json json)
      : path_(std::move(path)), json_(std::move(json)) {}

  static constexpr std::int64_t kMostBytes = 1 << 20;

  std::filesystem::path path_;
  Json json_;
};

}  // namespace tapegrad::run
