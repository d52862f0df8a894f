#include "apps/model_folder.h"

#include "data/pairs.h"

namespace tapegrad::apps {

Json read_config(const std::filesystem::path& folder, std::string_view expected) {
  const auto path = folder / config_file;
  Json json = read_json_object(path);
  std::string format;
  int version = 0;
  get(path, json, "format", format);
  get(path, json, "version", version);
  check(format == expected && version == config_version,
        "{}: this is {} {}, and this program reads {} {}", path.string(), format, version, expected,
        config_version);
  return json;
}

Json config_to_json(const nn::GPTConfig& c) {
  return {{"vocab_size", c.vocab_size},
          {"block_size", c.block_size},
          {"n_layer", c.n_layer},
          {"n_head", c.n_head},
          {"n_embd", c.n_embd},
          {"dropout", c.dropout},
          {"bias", c.bias},
          {"qkv_bias", c.qkv_bias},
          {"tied", c.tied},
          {"activation", nn::name_of(c.activation)},
          {"separate_qkv", c.separate_qkv},
          {"rope", c.rope},
          {"unbiased_norm", c.unbiased_norm},
          {"ff_dropout", c.ff_dropout},
          {"attn_out_dropout", c.attn_out_dropout},
          {"n_inner", json_of(c.n_inner)},
          {"placeholder", c.placeholder}};
}

Json config_to_json(const nn::TransformerConfig& c) {
  return {{"vocab_size", c.vocab_size},
          {"block_size", c.block_size},
          {"n_layer", c.n_layer},
          {"n_head", c.n_head},
          {"n_embd", c.n_embd},
          {"n_hidden", c.n_hidden},
          {"dropout", c.dropout},
          {"scale_embeddings", c.scale_embeddings},
          {"residual_from_norm", c.residual_from_norm}};
}

nn::TransformerConfig transformer_config_from_json(const std::filesystem::path& path,
                                                   const Json& json) {
  nn::TransformerConfig c;
  get(path, json, "vocab_size", c.vocab_size);
  get(path, json, "block_size", c.block_size);
  get(path, json, "n_layer", c.n_layer);
  get(path, json, "n_head", c.n_head);
  get(path, json, "n_embd", c.n_embd);
  get(path, json, "n_hidden", c.n_hidden);
  get(path, json, "dropout", c.dropout);
  get(path, json, "scale_embeddings", c.scale_embeddings);
  get(path, json, "residual_from_norm", c.residual_from_norm);
  try {
    c.validate();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return c;
}

nn::GPTConfig config_from_json(const std::filesystem::path& path, const Json& json) {
  nn::GPTConfig c;
  std::string activation;
  get(path, json, "vocab_size", c.vocab_size);
  get(path, json, "block_size", c.block_size);
  get(path, json, "n_layer", c.n_layer);
  get(path, json, "n_head", c.n_head);
  get(path, json, "n_embd", c.n_embd);
  get(path, json, "dropout", c.dropout);
  get(path, json, "bias", c.bias);
  get(path, json, "qkv_bias", c.qkv_bias);
  get(path, json, "tied", c.tied);
  get(path, json, "activation", activation);
  // Models that are older than these have none of them.
  const auto get_newer = [&](const std::string& name, auto& value) {
    if (json.contains(name)) get(path, json, name, value);
  };
  get_newer("separate_qkv", c.separate_qkv);
  get_newer("rope", c.rope);
  get_newer("unbiased_norm", c.unbiased_norm);
  get_newer("ff_dropout", c.ff_dropout);
  get_newer("attn_out_dropout", c.attn_out_dropout);
  get_newer("n_inner", c.n_inner);
  get_newer("placeholder", c.placeholder);
  try {
    c.activation = nn::activation_from(activation);
    c.validate();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return c;
}

namespace {

// What config.json, tokenizer.json and the program that reads them agree on.
struct Description {
  Json model;
  data::Tokenizer tokenizer;
};

Description describe(const std::filesystem::path& folder, std::string_view format,
                     const std::string& maker) {
  check(std::filesystem::is_directory(folder),
        "there is no folder {}: a model is the folder that {} made", folder.string(), maker);
  Json model;
  get(folder / config_file, read_config(folder, format), "model", model);
  return {model, data::Tokenizer::load(folder / tokenizer_file)};
}

// `special` tokens are the model's alone.
void check_vocabulary(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
                      int64_t vocab_size, int64_t special) {
  check(tokenizer.vocab_size() + special == vocab_size,
        "{}: the tokenizer has {} tokens, but the model in {} has {}: the files do not belong "
        "together",
        (folder / tokenizer_file).string(), tokenizer.vocab_size(), (folder / config_file).string(),
        vocab_size - special);
}

}  // namespace

StoredModel load_model(const std::filesystem::path& folder, DType dtype) {
  Description d = describe(folder, gpt_format, "train-gpt");
  const nn::GPTConfig config = config_from_json(folder / config_file, d.model);
  check_vocabulary(folder, d.tokenizer, config.vocab_size, 0);
  nn::Params params(load_safetensors((folder / model_file).string()), dtype);
  nn::GPT gpt(params, config);
  return {std::move(params), std::move(gpt), std::move(d.tokenizer)};
}

StoredTransformer load_transformer(const std::filesystem::path& folder) {
  Description d = describe(folder, seq2seq_format, "train-seq2seq");
  const auto config = transformer_config_from_json(folder / config_file, d.model);
  check_vocabulary(folder, d.tokenizer, config.vocab_size, data::SpecialTokens::count);
  nn::Params params(load_safetensors((folder / model_file).string()));
  nn::Transformer model(params, config);
  return {std::move(params), std::move(model), std::move(d.tokenizer)};
}

}  // namespace tapegrad::apps
