#pragma once

#include "tapegrad/run/models/formats/export.h"

namespace tapegrad::run {

// Error if transformers has no class that computes models of this config.
void check_hf_config(const nn::DecoderConfig& config);
bool is_hf_config(const nn::DecoderConfig& config);  // false where that is an error
// Writes a folder that transformers opens: config.json, generation_config.json, model.safetensors,
// tokenizer.json and tokenizer_config.json; as GPT2LMHeadModel, LlamaForCausalLM,
// MistralForCausalLM (with a window), Qwen2ForCausalLM (with qkv_bias) or Qwen3ForCausalLM (with
// qk_norm). Errors, before anything is written: what the
// class cannot express, by its option; a tokenizer other than Qwen2's of a Qwen, for which
// AutoTokenizer would take Qwen2's; a weight that is too large for f16.
Exported export_hf(const TextModel& model, const std::filesystem::path& folder,
                   const StoredType& type);

std::vector<std::string_view> hf_files();
// True if safetensors and config.json have a name for it.
bool is_hf_type(const StoredType& type);

}  // namespace tapegrad::run
