#include "tapegrad/run/model_folder.h"

#include "tapegrad/data/pairs.h"

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

namespace {

// The members of a model's config, by which they are written and read. Models that are older than
// a `newer` one do not have it.
template <class Visitor>
void visit_members(nn::GPTConfig& c, Visitor&& v) {
  v("vocab_size", c.vocab_size);
  v("block_size", c.block_size);
  v("n_layer", c.n_layer);
  v("n_head", c.n_head);
  v("n_embd", c.n_embd);
  v("dropout", c.dropout);
  v("bias", c.bias);
  v("qkv_bias", c.qkv_bias);
  v("tied", c.tied);
  v("activation", c.activation);
  v.newer("separate_qkv", c.separate_qkv);
  v.newer("rope", c.rope);
  v.newer("unbiased_norm", c.unbiased_norm);
  v.newer("ff_dropout", c.ff_dropout);
  v.newer("attn_out_dropout", c.attn_out_dropout);
  v.newer("n_inner", c.n_inner);
}

template <class Visitor>
void visit_members(nn::TransformerConfig& c, Visitor&& v) {
  v("vocab_size", c.vocab_size);
  v("block_size", c.block_size);
  v("n_layer", c.n_layer);
  v("n_head", c.n_head);
  v("n_embd", c.n_embd);
  v("n_hidden", c.n_hidden);
  v("dropout", c.dropout);
  v("scale_embeddings", c.scale_embeddings);
  v("residual_from_norm", c.residual_from_norm);
}

struct MemberWriter {
  Json json = Json::object();
  template <class T>
  void operator()(const char* name, const T& value) {
    json[name] = json_of(value);
  }
  void operator()(const char* name, nn::Activation value) {
    json[name] = std::string(name_of_enum(value));
  }
  template <class T>
  void newer(const char* name, const T& value) {
    (*this)(name, value);
  }
};

// Puts the file's name before what `read` complains about.
template <class Read>
void naming(const std::filesystem::path& path, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

struct MemberReader {
  const std::filesystem::path& path;
  const Json& json;
  template <class T>
  void operator()(const char* name, T& value) {
    get(path, json, name, value);
  }
  void operator()(const char* name, nn::Activation& value) {
    std::string text;
    get(path, json, name, text);
    const auto found = enum_of<nn::Activation>(text);
    check(found.has_value(), "{}: there is no activation '{}': choose gelu, gelu-erf or relu",
          path.string(), text);
    value = *found;
  }
  template <class T>
  void newer(const char* name, T& value) {
    if (json.contains(name)) (*this)(name, value);
  }
};

template <class Config>
Json json_of_config(Config config) {
  MemberWriter writer;
  visit_members(config, writer);
  return writer.json;
}

// Checks every value.
template <class Config>
Config config_from_json(const std::filesystem::path& path, const Json& json) {
  Config config;
  visit_members(config, MemberReader{path, json});
  naming(path, [&] { config.validate(); });
  return config;
}

}  // namespace

Json config_to_json(const nn::GPTConfig& config) { return json_of_config(config); }
Json config_to_json(const nn::TransformerConfig& config) { return json_of_config(config); }

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
        "{}: the tokenizer has {} tokens, but the model in {} has a vocab_size of {}, not {}: the "
        "files do not belong together",
        (folder / tokenizer_file).string(), tokenizer.vocab_size(), (folder / config_file).string(),
        vocab_size, tokenizer.vocab_size() + special);
}

}  // namespace

StoredModel load_model(const std::filesystem::path& folder, DType dtype) {
  Description d = describe(folder, gpt_format, "train-gpt");
  const auto config = config_from_json<nn::GPTConfig>(folder / config_file, d.model);
  check_vocabulary(folder, d.tokenizer, config.vocab_size, 0);
  nn::Params params(load_safetensors((folder / model_file).string()), dtype);
  nn::GPT gpt(params, config);
  return {std::move(params), std::move(gpt), std::move(d.tokenizer)};
}

StoredTransformer load_transformer(const std::filesystem::path& folder) {
  Description d = describe(folder, seq2seq_format, "train-seq2seq");
  const auto config = config_from_json<nn::TransformerConfig>(folder / config_file, d.model);
  check_vocabulary(folder, d.tokenizer, config.vocab_size, data::SpecialTokens::kCount);
  nn::Params params(load_safetensors((folder / model_file).string()));
  nn::Transformer model(params, config);
  return {std::move(params), std::move(model), std::move(d.tokenizer)};
}

}  // namespace tapegrad::apps
