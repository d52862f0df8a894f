#pragma once

#include "tapegrad/run/formats/export.h"

namespace tapegrad::run {

// Writes a folder that transformers opens: config.json, generation_config.json, model.safetensors,
// tokenizer.json and tokenizer_config.json, as GPT2LMHeadModel. Errors, before anything is written:
// what GPT2LMHeadModel cannot express, by its option; a weight that is too large for f16.
void export_hf(const TextModel& model, const std::filesystem::path& folder, StoredType type);

std::vector<std::string_view> hf_files();

}  // namespace tapegrad::run
