#include "tapegrad/run/models/formats/hf_config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/formats/foreign_parts.h"

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

  // Refuses a value that would change the result and that no model here has.
  template <class T>
  void must_be(const std::string& name, const T& expected) const {
    const T value = get(name, expected);
    check(value == expected, "{}: {} {} is not supported, only {}", path_.string(), name, value,
          expected);
  }
  void must_be_absent(const std::string& name) const {
    check(!has_value(name), "{}: {} is not supported", path_.string(), name);
  }

  bool has(const std::string& name) const { return json_.contains(name); }
  bool has_value(const std::string& name) const { return has(name) && !json_.at(name).is_null(); }
  std::vector<std::string> list(const std::string& name) const {
    return get(name, std::vector<std::string>());
  }
  HfConfig part(const std::string& name) const {
    const Json& inner = json_.at(name);
    check(inner.is_object(), "{}: {} must be an object", path_.string(), name);
    return HfConfig(path_, inner);
  }
  const fs::path& path() const { return path_; }

 private:
  HfConfig(fs::path path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  fs::path path_;
  Json json_;
};

nn::Activation activation_of(const HfConfig& file) {
  const auto name = file.get<std::string>("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return nn::Activation::gelu;
  if (name == "gelu") return nn::Activation::gelu_erf;
  check(name == "relu",
        "{}: activation_function '{}' is not supported, only gelu_new, gelu_pytorch_tanh, gelu and "
        "relu",
        file.path().string(), name);
  return nn::Activation::relu;
}

nn::GPTConfig gpt2_config(const HfConfig& file) {
  file.must_be("scale_attn_weights", true);
  file.must_be("scale_attn_by_inverse_layer_idx", false);
  file.must_be("add_cross_attention", false);
  nn::GPTConfig c;
  c.vocab_size = file.get<std::int64_t>("vocab_size", c.vocab_size);
  c.block_size = file.get<std::int64_t>("n_positions", file.get<std::int64_t>("n_ctx", 1024));
  c.n_layer = small_count(file.get<std::int64_t>("n_layer", c.n_layer));
  c.n_head = small_count(file.get<std::int64_t>("n_head", c.n_head));
  c.n_embd = small_count(file.get<std::int64_t>("n_embd", c.n_embd));
  const auto inner = file.get<std::int64_t>("n_inner", 4 * c.n_embd);
  if (inner != 4 * c.n_embd) c.n_inner = inner;
  c.activation = activation_of(file);
  c.norm_eps = file.get("layer_norm_epsilon", c.norm_eps);
  c.tied = file.get("tie_word_embeddings", true);
  return c;
}

// transformers 5 has all of it in rope_parameters, 4 has rope_theta beside rope_scaling, whose type
// older files call "type".
void read_rotation(const HfConfig& file, nn::GPTConfig& c) {
  c.rope_base = file.get("rope_theta", c.rope_base);
  const bool newer = file.has_value("rope_parameters");
  if (!newer && !file.has_value("rope_scaling")) return;
  const HfConfig part = file.part(newer ? "rope_parameters" : "rope_scaling");
  if (newer) c.rope_base = part.get("rope_theta", c.rope_base);
  const auto type = part.get<std::string>("rope_type", part.get<std::string>("type", "default"));
  part.must_be("partial_rotary_factor", 1.0);
  if (type == "default") return;
  check(type == "llama3",
        "{}: rotary positions of rope_type '{}' are not supported, only default and llama3",
        file.path().string(), type);
  c.rope_factor = part.need<double>("factor");
  c.rope_low_freq_factor = part.need<double>("low_freq_factor");
  c.rope_high_freq_factor = part.need<double>("high_freq_factor");
  c.rope_original_positions = part.need<std::int64_t>("original_max_position_embeddings");
}

// Mistral's attention slides unless its window is null, Qwen's only if it says so.
void cut_to_window(const HfConfig& file, bool mistral, nn::GPTConfig& c) {
  const bool slides = mistral ? file.has_value("sliding_window") || !file.has("sliding_window")
                              : file.get("use_sliding_window", false);
  if (slides) c.block_size = std::min(c.block_size, file.get<std::int64_t>("sliding_window", 4096));
}

nn::GPTConfig llama_config(const HfConfig& file, const std::string& type) {
  const bool llama = type == "llama", qwen3 = type == "qwen3";
  file.must_be<std::string>("hidden_act", "silu");
  file.must_be("attention_bias", false);
  file.must_be("mlp_bias", false);
  file.must_be("rope_interleaved", false);
  file.must_be("partial_rotary_factor", 1.0);
  nn::GPTConfig c;
  c.arch = nn::Architecture::llama;
  c.vocab_size = file.need<std::int64_t>("vocab_size");
  c.block_size = file.get<std::int64_t>("max_position_embeddings", 2048);
  c.n_layer = small_count(file.need<std::int64_t>("num_hidden_layers"));
  c.n_head = small_count(file.need<std::int64_t>("num_attention_heads"));
  c.n_embd = small_count(file.need<std::int64_t>("hidden_size"));
  c.n_inner = file.need<std::int64_t>("intermediate_size");
  // The defaults of the others' classes are those of their largest models.
  const int kv_heads = small_count(llama ? file.get<std::int64_t>("num_key_value_heads", c.n_head)
                                         : file.need<std::int64_t>("num_key_value_heads"));
  if (kv_heads != c.n_head) c.n_kv_head = kv_heads;
  if (qwen3 || file.has_value("head_dim")) {
    const auto size = file.need<std::int64_t>("head_dim");
    if (c.n_head < 1 || c.n_embd % c.n_head != 0 || size != c.n_embd / c.n_head) c.head_size = size;
  }
  c.norm_eps = file.get("rms_norm_eps", 1e-6);
  read_rotation(file, c);
  if (!llama) cut_to_window(file, type == "mistral", c);
  if (type == "qwen2") c.qkv_bias = true;
  c.qk_norm = qwen3;
  c.tied = file.get("tie_word_embeddings", false);
  return c;
}

struct Family {
  std::string_view type, architecture, base;
};
constexpr Family kFamilies[] = {{"gpt2", "GPT2LMHeadModel", "GPT2Model"},
                                {"llama", "LlamaForCausalLM", "LlamaModel"},
                                {"mistral", "MistralForCausalLM", "MistralModel"},
                                {"qwen2", "Qwen2ForCausalLM", "Qwen2Model"},
                                {"qwen3", "Qwen3ForCausalLM", "Qwen3Model"}};

const Family& family_of(const HfConfig& file) {
  const auto type = file.need<std::string>("model_type");
  const auto* const family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                          [&](const Family& f) { return f.type == type; });
  check(family != std::end(kFamilies),
        "{}: model_type '{}' is not supported, only gpt2, llama, mistral, qwen2 and qwen3",
        file.path().string(), type);
  for (const std::string& name : file.list("architectures")) {
    check(name == family->architecture || name == family->base,
          "{}: architectures: {} is not supported, only {}", file.path().string(), name,
          family->architecture);
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

nn::GPTConfig read_hf_config(const fs::path& folder) {
  const HfConfig file(folder);
  const std::string type(family_of(file).type);
  file.must_be_absent("quantization_config");
  const nn::GPTConfig c = type == "gpt2" ? gpt2_config(file) : llama_config(file, type);
  validate_config(c, file.path().string());
  return c;
}

}  // namespace tapegrad::run
