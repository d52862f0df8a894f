#pragma once

#include <filesystem>
#include <memory>

#include "tapegrad/autograd/tensor/tensor_source.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/gpt.h"

namespace tapegrad::run {

// A model folder in Hugging Face's layout: config.json, model.safetensors (or
// model.safetensors.index.json and the files that it names), and tokenizer.json (or vocab.json and
// merges.txt). GPT2LMHeadModel is read. What changes the result and is not known here is refused by
// name, and so is a tensor that is missing or that the model does not have. Its files may be links,
// as in Hugging Face's cache.

// Whether config.json has a model_type, as theirs have and ours have not.
bool is_hf_folder(const std::filesystem::path& folder);

// Dropout is 0, whatever the file says: it is the run's choice.
nn::GPTConfig hf_config(const std::filesystem::path& folder);

// A vocabulary that is smaller than the model's gets tokens without text up to its size.
data::Tokenizer hf_tokenizer(const std::filesystem::path& folder, std::int64_t vocab_size);

// The weights by our names and in our layout, (out, in), where theirs of linear layers are (in,
// out).
std::shared_ptr<const TensorSource> open_hf_weights(const std::filesystem::path& folder);

}  // namespace tapegrad::run
