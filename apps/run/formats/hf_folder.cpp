#include "tapegrad/run/formats/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/autograd/base/json_file.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/run/run_checkpoint.h"
#include "tapegrad/run/run_folder.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostConfigBytes = 1 << 20, kMostIndexBytes = 16 << 20;
constexpr std::string_view kPrefix = "transformer.", kHead = "lm_head.weight";

// A config.json of theirs. A value that is absent or null is the one that transformers takes then.
class HfConfig {
 public:
  explicit HfConfig(const fs::path& folder)
      : path_(folder / kConfigFile),
        json_(parse_json_object(path_, read_file(path_, kMostConfigBytes))) {}

  template <class T>
  T get(const std::string& name, T absent) const {
    const auto it = json_.find(name);
    if (it != json_.end() && !it->is_null()) tapegrad::get(path_, json_, name, absent);
    return absent;
  }

  // Refuses a value that would change the result and that no model here has.
  template <class T>
  void must_be(const std::string& name, const T& expected) const {
    const T value = get(name, expected);
    check(value == expected, "{}: {} {} is not supported, only {}", path_.string(), name, value,
          expected);
  }

  bool has(const std::string& name) const { return json_.contains(name); }
  const fs::path& path() const { return path_; }
  std::vector<std::string> list(const std::string& name) const {
    std::vector<std::string> values;
    if (has(name) && !json_.at(name).is_null()) tapegrad::get(path_, json_, name, values);
    return values;
  }

 private:
  fs::path path_;
  Json json_;
};

int small(std::int64_t value) {  // validate() has the bounds; these keep the conversion right
  return static_cast<int>(std::clamp<std::int64_t>(value, -1, 1 << 24));
}

nn::Activation activation_of(const HfConfig& config) {
  const auto name = config.get<std::string>("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return nn::Activation::gelu;
  if (name == "gelu") return nn::Activation::gelu_erf;
  check(name == "relu",
        "{}: activation_function '{}' is not supported, only gelu_new, gelu_pytorch_tanh, gelu and "
        "relu",
        config.path().string(), name);
  return nn::Activation::relu;
}

// The files with weights: one, or those that an index names.
std::vector<std::shared_ptr<const TensorSource>> open_files(const fs::path& folder) {
  const fs::path single = folder / kModelFile, index = folder / kModelIndexFile;
  if (fs::exists(single) || !fs::exists(index)) return {open_safetensors(single.string())};
  const Json json = parse_json_object(index, read_file(index, kMostIndexBytes));
  Json map;
  get(index, json, "weight_map", map);
  std::vector<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    check(file.is_string(), "{}: the file of '{}' must be a text", index.string(), tensor);
    const auto name = file.get<std::string>();
    check(!name.empty() && fs::path(name).filename() == name && name != "." && name != "..",
          "{}: '{}' is not the name of a file beside it", index.string(), name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    check(names.size() <= 1000, "{}: more than 1,000 files", index.string());
  }
  check(!names.empty(), "{}: 'weight_map' names no file", index.string());
  std::vector<std::shared_ptr<const TensorSource>> files;
  for (const std::string& name : names) files.push_back(open_safetensors((folder / name).string()));
  return files;
}

// Linear layers of GPT-2 are stored (in, out) there.
bool is_transposed(std::string_view name) {
  return name.ends_with("attn.c_attn.weight") || name.ends_with("attn.c_proj.weight") ||
         name.ends_with("mlp.c_fc.weight") || name.ends_with("mlp.c_proj.weight");
}

// The causal mask, which old files have as a tensor of each layer.
bool is_mask(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

// The tensors of GPT-2 by our names.
class GPT2Source : public TensorSource {
 public:
  GPT2Source(const fs::path& folder, bool tied) : name_(folder.string()) {
    for (const auto& file : open_files(folder)) {
      for (const auto& [stored, entry] : file->entries()) add(file, stored, entry);
    }
    if (tied && entries_.count(std::string(kHead)) != 0 && head_is_embedding()) {
      entries_.erase(std::string(kHead));
    }
  }
  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  struct Place {
    std::shared_ptr<const TensorSource> file;
    std::string stored;
  };

  void add(const std::shared_ptr<const TensorSource>& file, const std::string& stored,
           Entry entry) {
    std::string name = stored;
    if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
    if (is_mask(name)) return;
    check(entry.dtype == DType::f32 || entry.dtype == DType::f64, "{}: '{}' is {}, not of floats",
          file->name(), stored, entry.stored_dtype);
    if (is_transposed(name)) {
      check(entry.shape.rank() == 2, "{}: '{}' must be a matrix, not {}", file->name(), stored,
            entry.shape);
      std::swap(entry.shape[0], entry.shape[1]);
    }
    check(places_.emplace(name, Place{file, stored}).second, "{}: '{}' is there twice",
          file->name(), stored);
    entries_.emplace(name, entry);
  }

  // Files of tied models may have the head, too. One that differs from the embedding is used.
  bool head_is_embedding() const {
    const Tensor head = read(std::string(kHead)), embedding = read("wte.weight");
    if (head.shape() != embedding.shape() || head.dtype() != embedding.dtype()) return false;
    return dispatch(head.dtype(), [&](auto zero) {
      using T = decltype(zero);
      return std::memcmp(head.data<T>(), embedding.data<T>(), head.bytes()) == 0;
    });
  }

  Tensor load(const std::string& tensor, const Entry&, DType as) const override {
    const Place& place = places_.at(tensor);
    const Tensor stored = place.file->read(place.stored, as);
    if (!is_transposed(tensor)) return stored;
    const TapePause pause;
    return permute(stored, {1, 0});
  }

  std::string name_;
  Entries entries_;
  Metadata metadata_;
  std::map<std::string, Place> places_;
};

nn::GPTConfig gpt2_config(const HfConfig& file) {
  file.must_be<std::string>("model_type", "gpt2");
  for (const std::string& name : file.list("architectures")) {
    check(name == "GPT2LMHeadModel" || name == "GPT2Model",
          "{}: architectures: {} is not supported, only GPT2LMHeadModel", file.path().string(),
          name);
  }
  file.must_be("scale_attn_weights", true);
  file.must_be("scale_attn_by_inverse_layer_idx", false);
  file.must_be("add_cross_attention", false);
  nn::GPTConfig c;
  c.vocab_size = file.get<std::int64_t>("vocab_size", c.vocab_size);
  c.block_size = file.get<std::int64_t>("n_positions", file.get<std::int64_t>("n_ctx", 1024));
  c.n_layer = small(file.get<std::int64_t>("n_layer", c.n_layer));
  c.n_head = small(file.get<std::int64_t>("n_head", c.n_head));
  c.n_embd = small(file.get<std::int64_t>("n_embd", c.n_embd));
  const auto inner = file.get<std::int64_t>("n_inner", 4 * c.n_embd);
  if (inner != 4 * c.n_embd) c.n_inner = inner;
  c.activation = activation_of(file);
  c.norm_eps = file.get("layer_norm_epsilon", c.norm_eps);
  c.tied = file.get("tie_word_embeddings", true);
  try {
    c.validate();
  } catch (const Error& error) {
    fail("{}: {}", file.path().string(), error.what());
  }
  return c;
}

data::Tokenizer tokenizer_of(const fs::path& folder, std::int64_t vocab_size) {
  const data::Tokenizer tokenizer = data::Tokenizer::from_hf(folder);
  check(tokenizer.vocab_size() <= vocab_size,
        "{}: the tokenizer has {} tokens, more than the vocab_size {} of config.json: the files do "
        "not belong together",
        folder.string(), tokenizer.vocab_size(), vocab_size);
  return tokenizer.padded(vocab_size);
}

}  // namespace

bool is_hf_folder(const fs::path& folder) {
  const fs::path path = folder / kConfigFile;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  try {
    return HfConfig(folder).has("model_type");
  } catch (const Error&) {
    return false;  // who reads it as a run's says what is wrong
  }
}

ForeignModel open_hf(const fs::path& folder) {
  const HfConfig file(folder);
  nn::GPTConfig config = gpt2_config(file);
  auto weights = std::make_shared<GPT2Source>(folder, config.tied);
  config.tied = config.tied && !weights->contains(std::string(kHead));
  return {config, tokenizer_of(folder, config.vocab_size), std::move(weights)};
}

}  // namespace tapegrad::run
