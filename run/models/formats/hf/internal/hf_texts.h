#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/internal/settings_meaning.h"

namespace tapegrad::run {

struct Family;

// The files beside the weights in a folder of Hugging Face's layout.
class HfTexts {
 public:
  // `config`, which transformers must be able to express, is what config.json says, and `dtype` the
  // type of the weights there. The model must outlive it. Errors: check_hf_config(); settings that
  // cannot be written.
  HfTexts(const TextModel& model, const nn::DecoderConfig& config, std::string_view dtype);
  // False if AutoTokenizer would make the family's own tokenizer of the folder, and not the
  // model's; and an error that says so.
  bool has_own_tokenizer() const;
  void require_own_tokenizer() const;
  // Members of config.json beside those of the model's family.
  void add(const std::string& member, Json value) { config_[member] = std::move(value); }
  // Into a folder that is there. config.json is last.
  void write(const std::filesystem::path& folder) const;

 private:
  const TextModel& model_;
  SettingsMeaning meaning_;
  const Family& family_;
  std::string tokenizer_;
  Json config_;
};

// Names of files that it may write; the last is config.json.
std::vector<std::string_view> hf_text_files();

}  // namespace tapegrad::run
