#include "tapegrad/run/models/formats/gguf/internal/gguf_settings.h"

#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

const std::string kTemplate = "tokenizer.chat_template", kTemplates = "tokenizer.chat_templates";

// The names of a thing in Hugging Face's files and in GGUF; the second behind tokenizer.ggml. or
// general.sampling.
struct Name {
  const char *theirs, *gguf;
};
constexpr Name kRoles[] = {
    {"bos", "bos"}, {"unk", "unknown"}, {"sep", "seperator"}, {"pad", "padding"}, {"mask", "mask"}};
constexpr Name kNumbers[] = {{"temperature", "temp"},
                             {"top_k", "top_k"},
                             {"top_p", "top_p"},
                             {"min_p", "min_p"},
                             {"repetition_penalty", "penalty_repeat"}};

std::string role_key(const Name& role) {
  return std::string("tokenizer.ggml.") + role.gguf + "_token_id";
}
std::string number_key(const Name& number) {
  return std::string("general.sampling.") + number.gguf;
}

// A template's name as a part of a key: as llama.cpp's converter has it.
std::string name_in_key(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

GgufKeys passed_keys(const GgufFile& file) {
  GgufKeys keys;
  for (const auto& [name, value] : file.keys()) {
    const bool passes = name.starts_with("general.") || name.starts_with("tokenizer.") ||
                        name == kNfc || name == kMeanEndRow;
    if (passes && name != "general.alignment") keys.emplace(name, file.stored_value(name));
  }
  return keys;
}

void add_meaning(GgufKeys& keys, const SettingsMeaning& meaning) {
  std::vector<std::string> names;
  for (const auto& [name, text] : meaning.chat_templates) {
    if (name == kDefaultTemplate) {
      keys.emplace(kTemplate, text);
    } else if (keys.emplace(kTemplate + "." + name_in_key(name), text).second) {
      names.push_back(name_in_key(name));
    }
  }
  if (!names.empty()) keys.emplace(kTemplates, names);
  for (const Name& role : kRoles) {
    const auto token = meaning.roles.find(role.theirs);
    if (token != meaning.roles.end()) keys.emplace(role_key(role), std::int64_t{token->second});
  }
  for (const Name& number : kNumbers) {
    const auto value = meaning.numbers.find(number.theirs);
    if (value == meaning.numbers.end()) continue;
    std::visit([&](const auto& v) { keys.emplace(number_key(number), v); }, value->second);
  }
}

SettingsMeaning meaning_of_gguf(const GgufFile& file) {
  SettingsMeaning meaning;
  const GgufKeys& keys = file.keys();
  const auto add_template = [&](const std::string& key, const std::string& name) {
    const auto found = keys.find(key);
    if (found == keys.end()) return;
    if (const auto* text = std::get_if<std::string>(&found->second)) {
      meaning.chat_templates.emplace_back(name, *text);
    }
  };
  add_template(kTemplate, std::string(kDefaultTemplate));
  for (const auto& [key, value] : keys) {
    const std::string begin = kTemplate + ".";
    if (key.starts_with(begin)) add_template(key, key.substr(begin.size()));
  }
  for (const Name& role : kRoles) {
    const auto found = keys.find(role_key(role));
    const auto* id = found == keys.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    if (id != nullptr && *id >= 0 && *id <= INT32_MAX) {
      meaning.roles[role.theirs] = static_cast<data::Token>(*id);
    }
  }
  for (const Name& number : kNumbers) {
    const auto found = keys.find(number_key(number));
    if (found == keys.end()) continue;
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
      meaning.add_number(number.theirs, *whole);
    } else if (const auto* value = std::get_if<double>(&found->second)) {
      meaning.add_number(number.theirs, *value);
    }
  }
  return meaning;
}

}  // namespace tapegrad::run
