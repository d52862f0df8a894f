#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/run/models/hf_golden.h"

// Golden models of families, whose configs tests change.

namespace tapegrad::testing {

using nlohmann::json;
namespace fs = std::filesystem;

// transformers cuts texts of Qwen's models in this way, whatever the file says.
inline void cut_as_qwen2(json& tokenizer) {
  const std::string words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", words}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", false}};
  for (json& added : tokenizer["added_tokens"])
    added["normalized"] = false;  // as its makers have it
  tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

// A copy of a golden model, whose config a test may change.
struct GoldenFamily {
  TempFolder folder;
  SafeTensors expected;
  explicit GoldenFamily(const std::string& name)
      : expected(
            load_safetensors(golden_file("families/" + name + "/expected.safetensors").string())) {
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(golden_file("families/" + name) / file, folder / file);
    }
    json tokenizer = json::parse(TempFolder::get(golden_file("hf_gpt2/tokenizer.json")));
    if (name == "qwen3_moe" || name == "qwen3_next") cut_as_qwen2(tokenizer);
    folder.put("tokenizer.json", tokenizer.dump());
  }
  fs::path path() const { return folder / ""; }
  run::TextModel load() const { return run::load(path()); }
  void configure(const std::string& key, const json& value) const {
    json config = json::parse(TempFolder::get(folder / "config.json"));
    config[key] = value;
    folder.put("config.json", config.dump());
  }
};

// The same weights in a model of other options.
inline run::TextModel changed(const GoldenFamily& golden,
                              const std::function<void(nn::DecoderConfig&)>& change) {
  run::OpenedModel opened = run::open_model(golden.path());
  change(opened.config);
  return run::load(std::move(opened));
}

inline void export_to(const std::string& format, const run::TextModel& model, const fs::path& out,
                      const std::string& type = "f32") {
  run::export_model(model, run::export_format(format), out, stored_type(type), true);
}

}  // namespace tapegrad::testing
