#pragma once

#include <filesystem>

#include "tapegrad/autograd/base/json_file.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/gpt.h"
#include "tapegrad/nn/transformer.h"

namespace tapegrad::apps {

// The files of a run folder that make up a model.
inline constexpr std::string_view config_file = "config.json";
inline constexpr std::string_view model_file = "model.safetensors";
inline constexpr std::string_view tokenizer_file = "tokenizer.json";

// Whose config.json it is: of train-gpt and of train-seq2seq.
inline constexpr std::string_view gpt_format = "tapegrad-run";
inline constexpr std::string_view seq2seq_format = "tapegrad-seq2seq-run";
inline constexpr int config_version = 1;

// config.json of a run folder: {"format", "version", "model": {…}, "text": {…}, "training": {…}}.
// Error if it is of another format or version.
Json read_config(const std::filesystem::path& folder, std::string_view format = gpt_format);

// {"vocab_size": 65, …}: the member "model" of config.json.
Json config_to_json(const nn::GPTConfig& config);
Json config_to_json(const nn::TransformerConfig& config);

struct StoredModel {
  nn::Params params;
  nn::GPT gpt;
  data::Tokenizer tokenizer;
};

// The model of a run folder, converted to `dtype`. Files that are missing, broken or do not belong
// together are an Error that names them.
StoredModel load_model(const std::filesystem::path& folder, DType dtype = DType::f32);

struct StoredTransformer {
  nn::Params params;
  nn::Transformer model;
  data::Tokenizer tokenizer;  // the model has data::SpecialTokens behind its tokens
};

// The same of a run of train-seq2seq.
StoredTransformer load_transformer(const std::filesystem::path& folder);

}  // namespace tapegrad::apps
