#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {

inline constexpr std::string_view kDefaultTemplate = "default";

// The settings of a model for which both Hugging Face's files and GGUF have words.
struct SettingsMeaning {
  std::vector<std::pair<std::string, std::string>> chat_templates = {};  // by name
  // Of "bos", "unk", "sep", "pad" and "mask"; of Hugging Face's files "eos", which need not be the
  // first of the tokens that end texts.
  std::map<std::string, data::Token, std::less<>> roles = {};
  // Of generation_config.json: "temperature", "top_k", "top_p", "min_p", "repetition_penalty".
  using Number = std::variant<std::int64_t, double>;
  std::map<std::string, Number, std::less<>> numbers = {};
  // Unless it is not finite, or a whole number that no setting has.
  void add_number(const std::string& name, Number number);
};

// Roles are those of tokens that the tokenizer has. Error, naming the file, for one of Hugging
// Face's that is not an object of JSON.
SettingsMeaning meaning_of(const ModelSettings& settings, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
