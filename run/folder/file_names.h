#pragma once

#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// The names of files in a run folder: see RunFolder. Those of its config and its checkpoints are in
// config.h, run_checkpoint.h and kept_models.h.

inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";
inline constexpr std::string_view kLayersFile = "layers.jsonl";
inline constexpr std::string_view kSessionsFile = "sessions.jsonl";
inline constexpr std::string_view kReportFile = "report.html";
// The prefix of event files' names: see --tensorboard.
inline constexpr std::string_view kEventFile = "events.out.tfevents.";
inline constexpr std::string_view kTextFile = "corpus.txt";

// Settings of a model, as Hugging Face names their files: see ModelSettings.
inline constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensFile = "special_tokens_map.json";
inline constexpr std::string_view kChatTemplateFile = "chat_template.jinja";
// A GGUF without tensors: the keys of a model that came as GGUF.
inline constexpr std::string_view kSettingsKeysFile = "settings.gguf";

// Adapters, as PEFT names their files, and for llama.cpp: see Adapter.
inline constexpr std::string_view kPeftConfigFile = "adapter_config.json";
inline constexpr std::string_view kPeftModelFile = "adapter_model.safetensors";
inline constexpr std::string_view kGgufAdapterFile = "adapter.gguf";

}  // namespace tapegrad::run
