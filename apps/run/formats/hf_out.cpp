#include "tapegrad/run/formats/hf_out.h"

#include "tapegrad/autograd/base/json_file.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/folder_calls.h"
#include "tapegrad/run/formats/gpt2_weights.h"
#include "tapegrad/run/run_folder.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGenerationFile = "generation_config.json",
                           kTokenizerConfigFile = "tokenizer_config.json";

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

// The first token of a text, and the one that ends it; null where there is none. Without these
// lines, transformers would take GPT-2's.
struct Ends {
  std::optional<data::Token> begin, end;
  explicit Ends(const data::Tokenizer& tokenizer)
      : begin(tokenizer.end_of_text()), end(tokenizer.end_of_text()) {
    if (!tokenizer.begin().empty()) begin = tokenizer.begin().front();
  }
};

Json gpt2_config_json(const nn::GPTConfig& c, const Ends& ends, std::string_view dtype) {
  return {{"architectures", Json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"vocab_size", c.vocab_size},
          {"n_positions", c.block_size},
          {"n_ctx", c.block_size},  // for llama.cpp's converter
          {"n_embd", c.n_embd},
          {"n_layer", c.n_layer},
          {"n_head", c.n_head},
          {"n_inner", json_of(c.n_inner)},
          {"activation_function", activation_name(c.activation)},
          {"layer_norm_epsilon", c.norm_eps},
          {"tie_word_embeddings", c.tied},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"resid_pdrop", c.dropout},
          {"initializer_range", 0.02},
          {"use_cache", true},
          {"bos_token_id", json_of(ends.begin)},
          {"eos_token_id", json_of(ends.end)},
          {"dtype", dtype}};
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

// Linear layers of GPT-2 are stored (in, out) there.
bool is_transposed(std::string_view name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") ||
         name.ends_with("c_fc.weight");
}

std::vector<TensorToMake> gpt2_tensors(const GPT2Weights& weights) {
  std::vector<TensorToMake> tensors;
  for (const auto& [name, shape] : weights.entries()) {
    const bool transposed = is_transposed(name);
    tensors.push_back({name == "lm_head.weight" ? name : "transformer." + name,
                       transposed ? Shape{shape[1], shape[0]} : shape,
                       [&weights, name = name, transposed] {
                         const TapePause pause;
                         const Tensor t = weights(name);
                         return transposed ? permute(t, {1, 0}) : t;
                       }});
  }
  return tensors;
}

}  // namespace

std::vector<std::string_view> hf_files() {
  return {kConfigFile, kGenerationFile, kModelFile, kTokenizerFile, kTokenizerConfigFile};
}

void export_hf(const TextModel& model, const fs::path& folder, StoredType type) {
  const nn::GPTConfig& config = model.gpt.config();
  const TypeNames names = names_of_type(type);
  require_gpt2("GPT2LMHeadModel", config);
  const GPT2Weights weights(model.params, config);
  weights.check_fits_in(names.in_safetensors);
  const Ends ends(model.tokenizer);
  const std::string tokenizer = model.tokenizer.hf_json();

  make_folder(folder);
  check_writable(folder);
  save_safetensors((folder / kModelFile).string(), gpt2_tensors(weights), names.in_safetensors,
                   {{"format", "pt"}});
  write_file_atomically(folder / kTokenizerFile, tokenizer);
  write_json(folder / kTokenizerConfigFile,
             tokenizer_config_json(model.tokenizer, ends, config.block_size));
  write_json(folder / kGenerationFile, {{"_from_model_config", true},
                                        {"bos_token_id", json_of(ends.begin)},
                                        {"eos_token_id", json_of(ends.end)}});
  // Last: without it, nothing is taken for a model.
  write_json(folder / kConfigFile, gpt2_config_json(config, ends, names.in_config));
}

}  // namespace tapegrad::run
