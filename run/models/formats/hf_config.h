#pragma once

#include <filesystem>

#include "tapegrad/nn/gpt.h"

namespace tapegrad::run {

// Whether config.json has a model_type, as those of Hugging Face's have and ours have not.
bool has_hf_config(const std::filesystem::path& folder);

// The model that a config.json describes: GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM or Qwen3ForCausalLM. Of all but GPT-2, sizes must be there; other values that
// are absent are those that transformers takes. Error, naming key and value, for what changes the
// result and is not known here, other scalings of rotary positions for example. Where attention
// slides, the block size is no longer than its window, within which all is the same.
nn::GPTConfig read_hf_config(const std::filesystem::path& folder);

}  // namespace tapegrad::run
