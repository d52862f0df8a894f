#include "tapegrad/run/models/formats/hf_out.h"

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/run/folder/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/formats/gpt2_weights.h"
#include "tapegrad/run/models/formats/known_pre_tokenizers.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";

struct TypeNames {
  std::string_view in_safetensors, in_config;
};
TypeNames names_of_type(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return {"F32", "float32"};
    case StoredType::f16:
      return {"F16", "float16"};
    case StoredType::bf16:
      return {"BF16", "bfloat16"};
    case StoredType::q8_0:
      break;
  }
  fail("safetensors cannot store {}", name_of_enum(type));
}

std::string_view activation_name(nn::Activation activation) {
  switch (activation) {
    case nn::Activation::gelu:
      return "gelu_new";
    case nn::Activation::gelu_erf:
      return "gelu";
    case nn::Activation::relu:
      return "relu";
  }
  return "?";
}

// The first token of a text, and those that end it; null where there is none. Without these lines,
// transformers would take GPT-2's.
struct Ends {
  std::optional<data::Token> begin, end;  // `end`: for files that have one
  std::vector<data::Token> all;
  explicit Ends(const data::Tokenizer& tokenizer)
      : begin(tokenizer.end_of_text()), all(tokenizer.ends()) {
    if (!tokenizer.begin().empty()) begin = tokenizer.begin().front();
    if (!all.empty()) end = all.front();
  }
  Json json() const { return all.size() > 1 ? Json(all) : json_of(end); }
};

// What all families have. Mind the names: two versions of transformers read it, and llama.cpp's
// converter.
Json common_config(std::string_view architecture, std::string_view type, const nn::GPTConfig& c,
                   const Ends& ends, std::string_view dtype) {
  return {{"architectures", Json::array({architecture})},
          {"model_type", type},
          {"vocab_size", c.vocab_size},
          {"tie_word_embeddings", c.tied},
          {"initializer_range", 0.02},
          {"use_cache", true},
          {"bos_token_id", json_of(ends.begin)},
          {"eos_token_id", json_of(ends.end)},
          {"dtype", dtype}};
}

Json gpt2_config(const nn::GPTConfig& c) {
  return {{"n_positions", c.block_size},
          {"n_ctx", c.block_size},  // for llama.cpp's converter
          {"n_embd", c.n_embd},
          {"n_layer", c.n_layer},
          {"n_head", c.n_head},
          {"n_inner", json_of(c.n_inner)},
          {"activation_function", activation_name(c.activation)},
          {"layer_norm_epsilon", c.norm_eps},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"resid_pdrop", c.dropout}};
}

Json llama_config(const nn::GPTConfig& c) {
  Json rope = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (c.rope_factor != 1) {
    rope = {{"rope_type", "llama3"},
            {"rope_theta", c.rope_base},
            {"factor", c.rope_factor},
            {"low_freq_factor", c.rope_low_freq_factor},
            {"high_freq_factor", c.rope_high_freq_factor},
            {"original_max_position_embeddings", c.rope_original_positions}};
  }
  Json config = {{"hidden_size", c.n_embd},
                 {"intermediate_size", c.inner()},
                 {"num_hidden_layers", c.n_layer},
                 {"num_attention_heads", c.n_head},
                 {"num_key_value_heads", c.kv_heads()},
                 {"head_dim", c.channels_per_head()},
                 {"max_position_embeddings", c.block_size},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", c.norm_eps},
                 {"attention_dropout", c.dropout},
                 {"rope_parameters", rope},
                 {"rope_theta", c.rope_base},  // as transformers 4 spells it
                 {"rope_scaling", c.rope_factor == 1 ? Json() : rope}};
  if (c.qkv_bias.value_or(false)) {
    config["use_sliding_window"] = false;  // Qwen2's
  } else {
    config["attention_bias"] = false;
    if (!c.qk_norm) config["mlp_bias"] = false;
  }
  return config;
}

// The family whose class computes what the model does.
struct Family {
  std::string_view architecture, type;
};
Family family_of(const nn::GPTConfig& c) {
  if (!c.is_llama()) {
    require_gpt2("GPT2LMHeadModel", c);
    return {"GPT2LMHeadModel", "gpt2"};
  }
  check(c.n_embd % c.n_head == 0, "transformers needs n_embd {} to be divisible by n_head {}",
        c.n_embd, c.n_head);
  if (c.qk_norm) {
    require_option("Qwen3ForCausalLM", "qkv_bias", c.with_qkv_bias(), false);
    return {"Qwen3ForCausalLM", "qwen3"};
  }
  if (c.with_qkv_bias()) return {"Qwen2ForCausalLM", "qwen2"};
  return {"LlamaForCausalLM", "llama"};
}

// The class is one that takes the file as it is.
Json tokenizer_config_json(const data::Tokenizer& tokenizer, const Ends& ends,
                           std::int64_t block_size) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", block_size},
               {"clean_up_tokenization_spaces", false}};
  if (ends.begin) json["bos_token"] = tokenizer.token_bytes(*ends.begin);
  if (ends.end) json["eos_token"] = tokenizer.token_bytes(*ends.end);
  return json;
}

// Whatever the files say, AutoTokenizer makes Qwen2's tokenizer of a folder of that family: NFC,
// and its own expression to cut a text.
void require_qwen_tokenizer(const std::string& tokenizer_json) {
  const auto file = parse_json<nlohmann::json>(tokenizer_json, 16);
  const bool is_theirs = steps_of(member(file, "normalizer")) == "NFC" &&
                         steps_of(member(file, "pre_tokenizer")) == kQwen2PreTokenizer.steps &&
                         !flag(file.at("model"), "ignore_merges", false);
  check(is_theirs,
        "transformers takes a model with qkv_bias or qk_norm for one of Qwen's, and reads its "
        "tokenizer as Qwen2's, which would give other ids than this one");
}

// Linear layers of GPT-2 are stored (in, out) there.
bool is_transposed(std::string_view name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") ||
         name.ends_with("c_fc.weight");
}

std::string their_name(std::string_view prefix, const std::string& name) {
  return name == "lm_head.weight" ? name : std::string(prefix) + name;
}

std::vector<TensorToMake> gpt2_tensors(const GPT2Weights& weights) {
  std::vector<TensorToMake> tensors;
  for (const auto& [name, shape] : weights.entries()) {
    const bool transposed = is_transposed(name);
    tensors.push_back({their_name("transformer.", name),
                       transposed ? Shape{shape[1], shape[0]} : shape,
                       [&weights, name = name, transposed] {
                         const TapePause pause;
                         const Tensor t = weights(name);
                         return transposed ? permute(t, {1, 0}) : t;
                       }});
  }
  return tensors;
}

std::vector<TensorToMake> llama_tensors(const nn::Params& params) {
  std::vector<TensorToMake> tensors;
  for (const auto& [name, t] : params.tensors()) {
    tensors.push_back({their_name("model.", name), t.shape(), [t = t] { return t; }});
  }
  return tensors;
}

}  // namespace

std::vector<std::string_view> hf_files() {
  return {data::kGenerationFile, kModelFile, kTokenizerFile, kTokenizerConfigFile, kConfigFile};
}

Exported export_hf(const TextModel& model, const fs::path& folder, StoredType type) {
  const nn::GPTConfig& config = model.gpt.config();
  const TypeNames names = names_of_type(type);
  const Family family = family_of(config);
  require_stored_as(names.in_safetensors, model.params);
  const Ends ends(model.tokenizer);
  const std::string tokenizer = model.tokenizer.hf_json();
  if (family.type.starts_with("qwen")) require_qwen_tokenizer(tokenizer);
  Json config_json = common_config(family.architecture, family.type, config, ends, names.in_config);
  config_json.update(config.is_llama() ? llama_config(config) : gpt2_config(config));

  make_folder(folder);
  const std::string weights_file = (folder / kModelFile).string();
  const Metadata metadata = {{"format", "pt"}};
  if (config.is_llama()) {
    save_safetensors(weights_file, llama_tensors(model.params), names.in_safetensors, metadata);
  } else {
    const GPT2Weights weights(model.params, config);
    save_safetensors(weights_file, gpt2_tensors(weights), names.in_safetensors, metadata);
  }
  write_file_atomically(folder / kTokenizerFile, tokenizer);
  write_json(folder / kTokenizerConfigFile,
             tokenizer_config_json(model.tokenizer, ends, config.block_size));
  write_json(folder / data::kGenerationFile, {{"_from_model_config", ends.all.size() < 2},
                                              {"bos_token_id", json_of(ends.begin)},
                                              {"eos_token_id", ends.json()}});
  write_json(folder / kConfigFile, config_json);
  return {hf_files(),
          "in Python: AutoModelForCausalLM.from_pretrained(\"{0}\"), "
          "AutoTokenizer.from_pretrained(\"{0}\")"};
}

}  // namespace tapegrad::run
