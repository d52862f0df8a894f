#include "tapegrad/run/models/formats/internal/settings_meaning.h"

#include <cmath>
#include <optional>

#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_settings.h"

namespace tapegrad::run {
namespace {

constexpr const char* kTemplateKey = "chat_template";

// A file of the settings; an empty object if there is none.
Json object_in(const ModelSettings& settings, std::string_view name) {
  const auto file = settings.files.find(name);
  if (file == settings.files.end()) return Json::object();
  return parse_python_object(settings.folder / name, file->second);
}

std::optional<std::string> text_in(const Json& object, const char* name) {
  const Json value = object.is_object() ? object.value(name, Json()) : Json();
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

void read_templates(const ModelSettings& settings, const Json& config, SettingsMeaning& meaning) {
  auto& templates = meaning.chat_templates;
  const auto file = settings.files.find(kChatTemplateFile);
  if (file != settings.files.end()) {  // transformers prefers it
    templates.emplace_back(kDefaultTemplate, file->second);
    return;
  }
  if (const auto text = text_in(config, kTemplateKey)) {
    templates.emplace_back(kDefaultTemplate, *text);
  }
  const Json list = config.value(kTemplateKey, Json());
  if (!list.is_array()) return;
  for (const Json& one : list) {
    const auto name = text_in(one, "name"), text = text_in(one, "template");
    if (name && text) templates.emplace_back(*name, *text);
  }
}

// Their files name tokens by their texts, which stand alone or as the content of an object.
void read_roles(const std::vector<Json>& files, const data::Tokenizer& tokenizer,
                SettingsMeaning& meaning) {
  std::map<std::string, std::string> texts;  // of roles
  for (const char* role : {"bos", "eos", "unk", "sep", "pad", "mask"}) {
    const std::string key = std::string(role) + "_token";
    for (const Json& file : files) {
      const Json value = file.value(key, Json());
      auto text = text_in(file, key.c_str());
      if (!text) text = text_in(value, "content");
      if (text && !text->empty()) texts.emplace(role, *text);
    }
  }
  if (texts.empty()) return;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string bytes = tokenizer.token_bytes(token);
    for (const auto& [role, text] : texts) {
      if (bytes == text) meaning.roles.emplace(role, token);
    }
  }
}

// Ids of roles that no text names, and numbers.
void read_generation(const Json& generation, std::int64_t vocab_size, SettingsMeaning& meaning) {
  for (const char* role : {"bos", "pad"}) {
    const Json id = generation.value(std::string(role) + "_token_id", Json());
    const bool is_token = id.is_number_integer() && id >= 0 && id < vocab_size;
    if (is_token) meaning.roles.emplace(role, id.get<data::Token>());
  }
  for (const char* name : {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"}) {
    const Json value = generation.value(name, Json());
    if (value.is_number_float()) {
      meaning.add_number(name, value.get<double>());
    } else if (value.is_number_integer()) {
      meaning.add_number(name, value.get<std::int64_t>());
    }
  }
}

}  // namespace

void SettingsMeaning::add_number(const std::string& name, Number number) {
  const auto* whole = std::get_if<std::int64_t>(&number);
  const bool usable = whole != nullptr ? *whole >= 0 && *whole <= INT32_MAX
                                       : std::isfinite(std::get<double>(number));
  if (usable) numbers.emplace(name, number);
}

SettingsMeaning meaning_of(const ModelSettings& settings, const data::Tokenizer& tokenizer) {
  if (settings.gguf) {
    SettingsMeaning meaning = meaning_of_gguf(*settings.gguf);
    const auto is_row_that_went = [&](const auto& role) {  // of an end that was added for llama.cpp
      return role.second >= tokenizer.vocab_size();
    };
    std::erase_if(meaning.roles, is_row_that_went);
    return meaning;
  }
  SettingsMeaning meaning;
  const Json config = object_in(settings, kTokenizerConfigFile);
  read_templates(settings, config, meaning);
  read_roles({config, object_in(settings, kSpecialTokensFile)}, tokenizer, meaning);
  read_generation(object_in(settings, data::kGenerationFile), tokenizer.vocab_size(), meaning);
  return meaning;
}

}  // namespace tapegrad::run
