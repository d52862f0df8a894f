// PEFT's files of LoRA: github.com/huggingface/peft, src/peft/tuners/lora/config.py and "PEFT
// checkpoint format" in its documentation.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/hf/internal/hf_names.h"
#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPeftTorchFile = "adapter_model.bin";
const std::string kBasePrefix = "base_model.model.";
constexpr std::array<std::string_view, 2> kMatrices = {".lora_A.weight", ".lora_B.weight"};

// A member that must be absent, null, false, empty or the one value that means nothing special.
void refuse_unless_plain(const fs::path& path, const Json& json, const char* name,
                         std::string_view plain = "") {
  const auto it = json.find(name);
  if (it == json.end() || it->is_null()) return;
  const bool is_plain = (it->is_boolean() && !it->get<bool>()) ||
                        (it->is_structured() && it->empty()) ||
                        (it->is_string() && it->get_ref<const std::string&>() == plain);
  check(is_plain, "{}: '{}' {} is not supported", path.string(), name, json_text(*it));
}

// Some ways to draw the first adapters take what these add from the model's own weights, which a
// file of adapters does not have: beside the model as it was, they count for something else.
void refuse_changed_model(const fs::path& path, const Json& json) {
  constexpr std::string_view kChanging[] = {"pissa", "corda", "olora", "loftq"};
  const auto it = json.find("init_lora_weights");
  if (it == json.end() || !it->is_string()) return;
  const auto& name = it->get_ref<const std::string&>();
  const bool changes = std::any_of(std::begin(kChanging), std::end(kChanging),
                                   [&](std::string_view way) { return name.starts_with(way); });
  check(!changes,
        "{}: 'init_lora_weights' {} is not supported: it changes the model's own weights. PEFT's "
        "save_pretrained(path_initial_model_for_weight_conversion=…) makes usual adapters of them",
        path.string(), json_text(*it));
}

void check_rank_and_alpha(const fs::path& path, const nn::LoraOptions& o) {
  check(o.rank >= 1 && o.rank <= 1 << 20 && o.alpha > 0 && o.alpha <= 1 << 20,
        "{}: a rank of {} with an alpha of {} cannot be", path.string(), o.rank, o.alpha);
}

// True if a pattern of rank_pattern or alpha_pattern is of a module, "model.layers.0.mlp.up_proj":
// PEFT asks for a match of (.*\.)?(PATTERN)$. Here a pattern is a name, or the end of one, in which
// a dot stands for any character, and ^ for the name's beginning. Error for another expression.
bool is_pattern_of(const fs::path& path, std::string_view pattern, std::string_view module) {
  check(pattern.find_first_of("*+?[](){}|$\\") == std::string_view::npos,
        "{}: the pattern '{}' is not supported, only names of layers and their ends: write one for "
        "each layer",
        path.string(), pattern);
  const bool is_whole = pattern.starts_with('^');
  if (is_whole) pattern.remove_prefix(1);
  if (pattern.size() > module.size() || (is_whole && pattern.size() != module.size())) return false;
  const std::size_t before = module.size() - pattern.size();
  return (before == 0 || module[before - 1] == '.') &&
         std::equal(pattern.begin(), pattern.end(), module.begin() + static_cast<long>(before),
                    [](char p, char m) { return p == '.' || p == m; });
}

// Sets `value` to that of the first pattern that is of the module.
template <class T>
void take_pattern(const fs::path& path, const Json& json, const char* name, std::string_view module,
                  T& value) {
  const auto patterns = json.find(name);
  if (patterns == json.end() || patterns->is_null()) return;
  check(patterns->is_object(), "{}: '{}' must be an object", path.string(), name);
  for (const auto& [pattern, own] : patterns->items()) {
    if (is_pattern_of(path, pattern, module)) return get(path, *patterns, pattern, value);
  }
}

nn::LoraOptions options_of_file(const fs::path& path, const Json& json) {
  std::string type;
  get(path, json, "peft_type", type);
  check(type == "LORA", "{}: peft_type '{}' is not supported, only LORA", path.string(), type);
  refuse_unless_plain(path, json, "bias", "none");
  for (const char* name :
       {"use_dora", "lora_bias", "use_qalora", "modules_to_save", "trainable_token_indices",
        "target_parameters", "layer_replication", "alora_invocation_tokens"}) {
    refuse_unless_plain(path, json, name);
  }
  refuse_changed_model(path, json);
  nn::LoraOptions options;
  get(path, json, "r", options.rank);
  get(path, json, "lora_alpha", options.alpha);
  bool stabilised = false;
  if (json.contains("use_rslora")) get(path, json, "use_rslora", stabilised);
  if (stabilised) options.scaling = nn::LoraScaling::rslora;
  check_rank_and_alpha(path, options);
  return options;
}

constexpr std::string_view kWeight = ".weight";  // of a layer: families name tensors

// A layer of ours, as files of its family call it, and the other way round.
std::string layer_in_files(const Family& family, const std::string& ours) {
  const std::string name = hf_name(family.hf, ours + std::string(kWeight));
  return name.substr(0, name.size() - kWeight.size());
}
std::string layer_of_files(const Family& family, const nn::DecoderConfig& config,
                           const std::string& theirs) {
  const HfPlace place = place_of(family.hf, config, theirs + std::string(kWeight));
  if (place.expert || !place.ours.ends_with(kWeight)) return theirs;
  return place.ours.substr(0, place.ours.size() - kWeight.size());
}

std::string module_prefix(const Family& family) {
  return std::string(family.hf.module_prefix.empty() ? family.hf.prefix : family.hf.module_prefix);
}
// The prefix of a layer's name in a file: that of transformers' modules, or that of tensors, by
// which classes of others call their modules. Empty if the name has neither.
std::string prefix_in(const Family& family, const std::string& name) {
  for (const std::string& own : {module_prefix(family), std::string(family.hf.prefix)}) {
    if (name.starts_with(kBasePrefix + own)) return kBasePrefix + own;
  }
  return {};
}

Json config_json(const Adapter& adapter, const nn::DecoderConfig& config, const Family& family,
                 const std::string& base) {
  std::vector<std::string> layers = adapted_layers(*adapter.tensors), modules;
  for (std::string& layer : layers) layer = layer_in_files(family, layer);
  if (const auto names = names_in_blocks(layers, config.n_layer)) {
    modules = *names;
  } else {
    for (const std::string& layer : layers) modules.push_back(module_prefix(family) + layer);
  }
  const nn::LoraOptions& o = adapter.options;
  const bool is_whole = o.alpha == std::floor(o.alpha);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base},
          {"r", o.rank},
          {"lora_alpha", is_whole ? Json(static_cast<std::int64_t>(o.alpha)) : Json(o.alpha)},
          {"use_rslora", o.scaling == nn::LoraScaling::rslora},
          {"lora_dropout", 0.0},
          {"bias", "none"},
          {"fan_in_fan_out", !family.hf.transposed.empty()},
          {"target_modules", modules},
          {"modules_to_save", nullptr},
          {"use_dora", false},
          {"inference_mode", true}};
}

}  // namespace

Adapter open_peft(const fs::path& folder, const nn::DecoderConfig& config) {
  constexpr std::int64_t kMostBytes = 4 << 20;
  const fs::path path = folder / kPeftConfigFile;
  const Json json = parse_json_object(path, read_file(path, kMostBytes));
  const nn::LoraOptions options = options_of_file(path, json);
  const bool has_torch_file =
      path_exists(folder / kPeftTorchFile) && !path_exists(folder / kPeftModelFile);
  const auto file = open_weights(folder / (has_torch_file ? kPeftTorchFile : kPeftModelFile));
  const Family& family = family_of(config);
  std::map<std::string, AdapterPlace> places;
  for (const auto& [name, entry] : file->entries()) {
    const std::size_t matrix = name.size() - std::min(name.size(), kMatrices[0].size());
    const std::string prefix = prefix_in(family, name);
    const bool known =
        !prefix.empty() && matrix >= prefix.size() &&
        std::ranges::find(kMatrices, std::string_view(name).substr(matrix)) != kMatrices.end();
    check(known, "{}: '{}' is no adapter of a linear layer of {}", file->name(), name,
          family.hf.model_class);
    const std::string layer = name.substr(prefix.size(), matrix - prefix.size());
    places.emplace(layer_of_files(family, config, layer) + name.substr(matrix), AdapterPlace{name});
  }
  const auto options_of = [&](const std::string& layer, std::int64_t) {
    nn::LoraOptions own = options;
    const std::string module = module_prefix(family) + layer_in_files(family, layer);
    take_pattern(path, json, "rank_pattern", module, own.rank);
    take_pattern(path, json, "alpha_pattern", module, own.alpha);
    check_rank_and_alpha(path, own);
    return own;
  };
  return adapter_of(file, std::move(places), options_of, config.n_layer);
}

void write_peft(const fs::path& folder, const Adapter& adapter, const nn::DecoderConfig& config,
                const std::string& base) {
  const Family& family = family_of(config);
  const auto free = options_of(family, family.hf.keys, config);
  require_expressible(family.hf.model_class, config, model_with(family, config, free), free);
  check(config.arch != nn::Architecture::gpt2 || !config.projects_apart(),
        "{} has one layer for Q, K and V, and these adapters one for each", family.hf.model_class);
  for (const auto& [name, entry] : adapter.tensors->entries()) {
    check(entry.shape.rank() == 2,
          "'{}' is of experts, for which PEFT's files have no layers: --format gguf-lora has, and "
          "tapegrad merge adds adapters to the model",
          name);
  }
  const std::string prefix = kBasePrefix + module_prefix(family);
  std::vector<TensorToMake> tensors;
  for (const std::string& layer : adapted_layers(*adapter.tensors)) {
    for (const std::string_view matrix : kMatrices) {
      const std::string name = layer + std::string(matrix);
      tensors.push_back({prefix + layer_in_files(family, layer) + std::string(matrix),
                         adapter.tensors->at(name).shape,
                         [&, name] { return adapter.tensors->read(name, DType::f32); }});
    }
  }
  make_folder(folder);
  save_safetensors((folder / kPeftModelFile).string(), tensors, stored_type(DType::f32),
                   {{"format", "pt"}});
  write_json(folder / kPeftConfigFile, config_json(adapter, config, family, base));
}

}  // namespace tapegrad::run
