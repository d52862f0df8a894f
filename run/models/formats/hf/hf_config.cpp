#include "tapegrad/run/models/formats/hf/internal/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostConfigBytes = 1 << 20;
constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

// An object of a config.json of theirs. A value that is absent or null is the one that transformers
// takes then.
class HfConfig {
 public:
  explicit HfConfig(const fs::path& folder)
      : path_(folder / kConfigFile),
        json_(parse_python_object(path_, read_file(path_, kMostConfigBytes))) {}

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
  std::string path() const { return path_.string(); }

 private:
  HfConfig(fs::path path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  fs::path path_;
  Json json_;
};

std::string rope_type(const HfConfig& part) {
  return part.get<std::string>("rope_type", part.get<std::string>("type", "default"));
}

// Of families with a base of their own for blocks with the window: rope_parameters have a part for
// each kind of blocks, older files rope_local_base_freq. Returns the part of blocks without it.
HfConfig read_window_base(const HfConfig& file, nn::DecoderConfig& c) {
  c.rope_window_base = file.get("rope_local_base_freq", c.rope_window_base);
  const HfConfig parts = file.part("rope_parameters");
  if (parts.empty()) return parts;
  for (const char* part : {kSliding, kFull}) {
    check(parts.has_value(part), "{}: rope_parameters: there is no '{}'", file.path(), part);
  }
  const HfConfig sliding = parts.part(kSliding);
  check(rope_type(sliding) == "default",
        "{}: rotary positions of rope_type '{}' in blocks with a window are not supported, only "
        "default",
        file.path(), rope_type(sliding));
  c.rope_window_base = sliding.get("rope_theta", c.rope_window_base);
  return parts.part(kFull);
}

// transformers 5 has all of it in rope_parameters, 4 has rope_theta beside rope_scaling, whose type
// older files call "type". Where a file has both, transformers 5 takes rope_scaling in place of
// rope_parameters; of families with a part for each kind of blocks, it updates one part with it.
HfConfig rotation_in(const HfConfig& file, nn::DecoderConfig& c) {
  const HfConfig older = file.part("rope_scaling");
  if (c.rope_window_base != 0) {
    check(!older.has("type") || older.has("rope_type"),
          "{}: rope_scaling has a 'type', which versions of transformers read differently: call it "
          "rope_type",
          file.path());
    return read_window_base(file, c).updated_with(older);
  }
  const HfConfig newer = file.part("rope_parameters");
  for (const char* part : {kSliding, kFull}) {
    check(!newer.has(part), "{}: rope_parameters: '{}' is not supported, only one part for all",
          file.path(), part);
  }
  if (older.empty()) return newer;
  const double base = older.get("rope_theta", c.rope_base), other = newer.get("rope_theta", base);
  check(base == other,
        "{}: rope_scaling counts with a rope_theta of {}, but rope_parameters have {}: keep one of "
        "the two objects",
        file.path(), base, other);
  return older;
}

// The share of a head's channels that turn, of which transformers rounds the number down. The one
// in the object of rotary positions wins.
void read_turned_share(const HfConfig& file, const HfConfig& part, const HfFamily& family,
                       nn::DecoderConfig& c) {
  const std::string key = "partial_rotary_factor";
  const double share = part.get(key, file.get(key, family.turned_share.value_or(1.0)));
  check(share == 1 || (family.turned_share && share > 0 && share < 1),
        "{}: partial_rotary_factor {} is not supported, only {}", file.path(), share,
        family.turned_share ? "above 0 and at most 1" : "1");
  if (share == 1) return;
  const double channels = static_cast<double>(c.channels_per_head()) * share;
  c.rope_channels = static_cast<std::int64_t>(channels);
  check(*c.rope_channels >= 2 && *c.rope_channels % 2 == 0,
        "{}: partial_rotary_factor {} turns {} channels of each head of {}, which must be an even "
        "number",
        file.path(), share, *c.rope_channels, c.channels_per_head());
}

// What YaRN has beside the factor and the original positions, as transformers reads it: 0 and null
// are absent for some keys, and not for others.
void read_yarn(const HfConfig& part, bool by_kind, nn::DecoderConfig& c) {
  const auto unless_zero = [&](const char* key, double absent) {
    const double value = part.get(key, absent);
    return value == 0 ? absent : value;
  };
  c.rope_beta_fast = unless_zero("beta_fast", c.rope_beta_fast);
  c.rope_beta_slow = unless_zero("beta_slow", c.rope_beta_slow);
  if (!by_kind && part.has("truncate")) c.rope_truncate = part.get("truncate", false);
  const double mscale = unless_zero("mscale", 0), of_all = unless_zero("mscale_all_dim", 0);
  const double usual = yarn_attention_factor(c.rope_factor);
  double factor = part.get("attention_factor", usual);
  check(factor > 0, "{}: attention_factor {} must be above 0", part.path(), factor);
  if (!part.has_value("attention_factor") && mscale != 0 && of_all != 0) {
    factor =
        yarn_attention_factor(c.rope_factor, mscale) / yarn_attention_factor(c.rope_factor, of_all);
    check(factor > 0, "{}: mscale {} and mscale_all_dim {} make the attention factor {}",
          part.path(), mscale, of_all, factor);
  }
  c.rope_attention_factor = factor == usual ? 0 : factor;
}

// The kind of scaling that transformers computes for a rope_type.
nn::RopeScalingKind scaling_kind(const HfConfig& file, const std::string& type,
                                 HfFamily::Scalings scalings) {
  using Kind = nn::RopeScalingKind;
  // As far as max_position_embeddings, where texts end here, the dynamic kind turns as the default.
  const bool all = scalings == HfFamily::Scalings::all;
  if (type == "default" || (all && type == "dynamic")) return Kind::none;
  // What Phi-3 called it.
  const bool older = type == "su" || type == "yarn";
  if (scalings == HfFamily::Scalings::longrope && older) return Kind::longrope;
  const auto kind = enum_of<Kind>(type);
  const bool known = kind && *kind != Kind::none &&
                     (all || (scalings == HfFamily::Scalings::longrope && *kind == Kind::longrope));
  check(known, "{}: rotary positions of rope_type '{}' are not supported, only {}", file.path(),
        type,
        all ? "default, dynamic, linear, llama3, longrope and yarn"
        : scalings == HfFamily::Scalings::longrope ? "default and longrope"
                                                   : "default");
  return *kind;
}

constexpr const char* kOriginal = "original_max_position_embeddings";

// One at the top of the file wins.
void read_original_positions(const HfConfig& file, const HfConfig& part, bool by_kind,
                             const HfFamily& family, nn::DecoderConfig& c) {
  const std::int64_t inside = family.original_positions.value_or(part.get(kOriginal, c.block_size));
  c.rope_original_positions = by_kind ? inside : file.get(kOriginal, inside);
  check(c.rope_original_positions > 0, "{}: {} {} must be above 0", file.path(), kOriginal,
        c.rope_original_positions);
}

// The ratio of the positions to those of the first training.
double factor_of_positions(const nn::DecoderConfig& c) {
  return static_cast<double>(c.block_size) / static_cast<double>(c.rope_original_positions);
}

std::string text_of(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

void read_longrope(const HfConfig& file, const HfConfig& part, nn::DecoderConfig& c) {
  for (const auto& [key, factors] : {std::pair("short_factor", &c.rope_short_factors),
                                     std::pair("long_factor", &c.rope_long_factors)}) {
    *factors = text_of(part.need<std::vector<double>>(key));
  }
  // Attention is not scaled for factors up to 1.
  c.rope_factor = std::max(1.0, part.get("factor", factor_of_positions(c)));
  const double usual = longrope_attention_factor(c.rope_factor, c.rope_original_positions);
  const double factor = part.get("attention_factor", usual);
  check(factor > 0, "{}: attention_factor {} must be above 0", file.path(), factor);
  c.rope_attention_factor = factor == usual ? 0 : factor;
}

// Of families whose queries grow.
void read_query_scale(const HfConfig& part, nn::DecoderConfig& c) {
  c.query_scale_beta = part.need<double>("llama_4_scaling_beta");
  if (c.query_scale_beta != 0) c.rope_original_positions = part.get(kOriginal, c.block_size);
}

void read_rotation(const HfConfig& file, const HfFamily& family, nn::DecoderConfig& c) {
  c.rope_base = file.get("rope_theta", c.rope_base);
  const bool by_kind = c.rope_window_base != 0;
  const HfConfig part = rotation_in(file, c);
  c.rope_base = part.get("rope_theta", c.rope_base);
  if (family.own_rotation != nullptr && part.empty()) return family.own_rotation(c);
  if (family.own_rotation != nullptr) read_query_scale(part, c);
  read_turned_share(file, part, family, c);
  const nn::RopeScalingKind kind = scaling_kind(file, rope_type(part), family.scalings);
  if (kind == nn::RopeScalingKind::none) return;
  c.rope_scaling = kind;
  const bool is_yarn = kind == nn::RopeScalingKind::yarn;
  if (kind != nn::RopeScalingKind::linear) {
    read_original_positions(file, part, by_kind, family, c);
  }
  if (kind == nn::RopeScalingKind::longrope) return read_longrope(file, part, c);
  if (is_yarn && part.has("factor") && !part.has_value("factor")) {
    c.rope_factor = factor_of_positions(c);
  } else {
    c.rope_factor = part.need<double>("factor");
  }
  if (is_yarn) read_yarn(part, by_kind, c);
  if (kind != nn::RopeScalingKind::llama3) return;
  c.rope_low_freq_factor = part.need<double>("low_freq_factor");
  c.rope_high_freq_factor = part.need<double>("high_freq_factor");
}

// The share that rounds down to so many channels.
double share_of(std::int64_t channels, std::int64_t all) {
  const auto of = static_cast<double>(all);
  const double share = static_cast<double>(channels) / of;
  return static_cast<std::int64_t>(of * share) == channels ? share : std::nextafter(share, 1.0);
}

// What YaRN has beside the factor and the original positions.
void set_yarn(const HfFamily& family, const nn::DecoderConfig& c, Json& rope) {
  const nn::DecoderConfig usual;
  const auto set = [&](const char* key, double value, double absent) {
    if (value != absent) rope[key] = value;
  };
  set("beta_fast", c.rope_beta_fast, usual.rope_beta_fast);
  set("beta_slow", c.rope_beta_slow, usual.rope_beta_slow);
  if (!c.rope_truncate) rope["truncate"] = false;
  if (family.own_rotation != nullptr &&
      c.rope_attention_factor == 1) {  // as llama.cpp's converter wants it
    rope["mscale"] = rope["mscale_all_dim"] = 1.0;
    return;
  }
  set("attention_factor", c.rope_attention_factor, usual.rope_attention_factor);
}

void set_longrope(const nn::DecoderConfig& c, Json& rope) {
  const RopeScaling scaling = *c.scaling();
  rope["short_factor"] = scaling.short_factors;
  rope["long_factor"] = scaling.long_factors;
  if (c.rope_attention_factor != 0) rope["attention_factor"] = c.rope_attention_factor;
}

// transformers 4 takes three keys of Phi-3's, and no more.
Json older_longrope(const nn::DecoderConfig& c, const Json& rope) {
  const bool is_usual =
      c.rope_attention_factor == 0 && c.rope_factor == std::max(1.0, factor_of_positions(c));
  if (!is_usual) return rope;
  return {{"type", "longrope"},
          {"short_factor", rope.at("short_factor")},
          {"long_factor", rope.at("long_factor")}};
}

void set_rotation(const Family& family, const nn::DecoderConfig& c, Json& json) {
  Json rope = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (family.hf.turned_share) {
    const double share = share_of(c.turned_channels(), c.channels_per_head());
    rope["partial_rotary_factor"] = json["partial_rotary_factor"] = share;
  }
  if (c.scaling()) {
    rope["rope_type"] = name_of_enum(c.rope_scaling);
    rope["factor"] = c.rope_factor;
    if (c.rope_scaling == nn::RopeScalingKind::llama3) {
      rope["low_freq_factor"] = c.rope_low_freq_factor;
      rope["high_freq_factor"] = c.rope_high_freq_factor;
    }
    if (c.rope_scaling == nn::RopeScalingKind::yarn) set_yarn(family.hf, c, rope);
    if (c.rope_scaling == nn::RopeScalingKind::longrope) set_longrope(c, rope);
    if (c.rope_scaling != nn::RopeScalingKind::linear) rope[kOriginal] = c.rope_original_positions;
  }
  if (family.hf.own_rotation != nullptr) {
    rope["llama_4_scaling_beta"] = c.query_scale_beta;
    rope[kOriginal] = c.rope_original_positions;
  }
  json["rope_parameters"] = rope;
  if (family.model.rope_window_base != 0) {
    const double base = c.rope_window_base != 0 ? c.rope_window_base : c.rope_base;
    json["rope_parameters"] = {{kFull, rope},
                               {kSliding, {{"rope_type", "default"}, {"rope_theta", base}}}};
    json["rope_local_base_freq"] = base;
  }
  json["rope_theta"] = c.rope_base;  // as transformers 4 spells it
  json["rope_scaling"] = c.scaling() ? rope : Json();
  if (c.rope_scaling == nn::RopeScalingKind::longrope &&
      family.hf.scalings == HfFamily::Scalings::longrope) {
    json["rope_scaling"] = older_longrope(c, rope);
  }
}

// Which blocks have the window, as DecoderConfig has it.
std::string window_pattern(const HfConfig& file, HfFamily::Window window,
                           const nn::DecoderConfig& c) {
  const int n_layer = c.n_layer;
  std::string letters;
  const auto types = file.get("layer_types", std::vector<std::string>());
  for (const std::string& type : types) {
    check(type == kSliding || type == kFull,
          "{}: layer_types: '{}' is not supported, only {} and {}", file.path(), type, kSliding,
          kFull);
    letters += type == kSliding ? 'S' : 'L';
  }
  check(types.empty() || std::ssize(types) == n_layer, "{}: layer_types names {} layers of {}",
        file.path(), types.size(), n_layer);
  if (!types.empty()) return letters;
  if (window == HfFamily::Window::by_layer) {
    const auto size = file.get<std::int64_t>("sliding_window_pattern", 0);
    return size == 0 ? c.window_pattern : pattern_with_last('S', 'L', size);
  }
  const auto first = file.get<std::int64_t>("max_window_layers", 28);
  for (int i = 0; i < n_layer; ++i) letters += i >= first ? 'S' : 'L';
  return letters;
}

void read_window(const HfConfig& file, HfFamily::Window window, nn::DecoderConfig& c) {
  const bool is_null = file.has("sliding_window") && !file.has_value("sliding_window");
  check(!is_null || window != HfFamily::Window::by_layer,
        "{}: sliding_window null is not supported, only a number", file.path());
  const bool slides =
      window == HfFamily::Window::unless_null || window == HfFamily::Window::by_layer ||
      (window == HfFamily::Window::if_asked && file.get("use_sliding_window", false));
  if (!slides || is_null) return;
  c.window = file.get<std::int64_t>("sliding_window", 4096);
  check(c.window > 0, "{}: sliding_window {} must be 1 or more", file.path(), c.window);
  if (window == HfFamily::Window::unless_null) return;
  c.window_pattern = window_pattern(file, window, c);
}

// transformers before 4.53 knows no layer_types: there, all layers from max_window_layers on slide.
void set_windows(const Family& family, const nn::DecoderConfig& c, Json& json) {
  const bool asked = family.hf.window == HfFamily::Window::if_asked;
  if (asked) json["use_sliding_window"] = c.window > 0;
  if (asked && c.window == 0) return;
  Json types = Json::array();
  int first = c.n_layer;
  for (int i = c.n_layer; i-- > 0;) {
    const bool slides = c.scores_of(i).window > 0;
    if (slides) first = i;
    types.insert(types.begin(), slides ? kSliding : kFull);
  }
  json["sliding_window"] = c.window == 0 ? c.block_size : c.window;
  if (asked) json["max_window_layers"] = first;
  json["layer_types"] = types;
}

// 1 for each block with rotary positions, 0 for one without.
void read_rotary_blocks(const HfConfig& file, nn::DecoderConfig& c) {
  const auto turned = file.get("no_rope_layers", std::vector<std::int64_t>());
  if (turned.empty()) {
    const auto interval = file.get<std::int64_t>("no_rope_layer_interval", 4);
    check(interval >= 1 && interval <= 4096, "{}: no_rope_layer_interval {} must be 1 to 4096",
          file.path(), interval);
    c.rope_pattern = pattern_with_last('R', 'N', interval);
    return;
  }
  check(std::ssize(turned) == c.n_layer, "{}: no_rope_layers names {} layers of {}", file.path(),
        turned.size(), c.n_layer);
  c.rope_pattern.clear();
  for (const std::int64_t turns : turned) c.rope_pattern += turns != 0 ? 'R' : 'N';
}

void set_rotary_blocks(const nn::DecoderConfig& c, Json& json) {
  Json turned = Json::array();
  for (int i = 0; i < c.n_layer; ++i) turned.push_back(c.turns(i) ? 1 : 0);
  json["no_rope_layers"] = turned;
}

// Every decoder_sparse_step-th block has experts, but for those that mlp_only_layers names.
void read_dense_blocks(const HfConfig& file, nn::DecoderConfig& c) {
  const auto step = file.get<std::int64_t>("decoder_sparse_step", 1);
  check(step >= 1 && step <= 4096, "{}: decoder_sparse_step {} must be 1 to 4096", file.path(),
        step);
  if (!c.moe.exist()) return;
  c.moe.pattern.clear();
  for (int i = 0; i < c.n_layer; ++i) c.moe.pattern += (i + 1) % step == 0 ? 'E' : 'D';
  for (const auto dense : file.get("mlp_only_layers", std::vector<std::int64_t>())) {
    if (dense >= 0 && dense < c.n_layer) c.moe.pattern[static_cast<std::size_t>(dense)] = 'D';
  }
}

void set_dense_blocks(const nn::DecoderConfig& c, Json& json) {
  Json dense = Json::array();
  for (int i = 0; i < c.n_layer; ++i) {
    if (!c.has_experts(i)) dense.push_back(i);
  }
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = dense;
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
  check(!file.has_value("quantization_config"), "{}: quantization_config '{}' is not supported: {}",
        file.path(), file.part("quantization_config").get<std::string>("quant_method", "unknown"),
        kQuantisedRemedy);
  nn::DecoderConfig config = config_of_keys(family, family.hf.keys, file.path(), "",
                                            [&](std::string_view key) { return file.find(key); });
  if (key_of(family.hf.keys, kRotation) != nullptr) {
    read_rotation(file, family.hf, config);
  }
  if (key_of(family.hf.keys, kRotaryBlocks) != nullptr) read_rotary_blocks(file, config);
  if (key_of(family.hf.keys, kDenseBlocks) != nullptr) read_dense_blocks(file, config);
  read_window(file, family.hf.window, config);
  if (family.follow != nullptr) family.follow(config);
  if (family.hf.settle != nullptr) family.hf.settle(config);
  settle_config(family, file.path(), config);
  return {family, config};
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
    } else {
      json[std::string(key)] = json_of_value(value);
    }
  }
  // The one at the top wins, and is the only one that transformers 4 reads.
  if (config.rope_scaling == nn::RopeScalingKind::longrope) {
    json[kOriginal] = config.rope_original_positions;
  }
}

}  // namespace tapegrad::run
