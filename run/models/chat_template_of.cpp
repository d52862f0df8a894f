#include "tapegrad/run/models/chat_template_of.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/run/models/formats/internal/settings_meaning.h"

namespace tapegrad::run {
namespace {

constexpr std::string_view kTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};

// Of Hugging Face's files: every key that ends in _token and is a text, or an object with one, in
// tokenizer_config.json before special_tokens_map.json. transformers makes variables of them all.
void add_named_tokens(const ModelSettings& settings, data::SpecialTokenTexts& tokens) {
  for (const std::string_view name : {kTokenizerConfigFile, kSpecialTokensFile}) {
    const auto file = settings.files.find(name);
    if (file == settings.files.end()) continue;
    const Json json = parse_json_object(settings.folder / name, file->second);
    for (const auto& [key, value] : json.items()) {
      if (!key.ends_with("_token")) continue;
      const Json text = value.is_object() ? value.value("content", Json()) : value;
      if (text.is_string()) tokens.emplace(key, text.get<std::string>());
    }
  }
}

std::vector<std::string> names_of(const SettingsMeaning& meaning) {
  std::vector<std::string> names;
  for (const auto& [name, source] : meaning.chat_templates) names.push_back(name);
  return names;
}

}  // namespace

data::SpecialTokenTexts special_token_texts(const ModelSettings& settings,
                                            const data::Tokenizer& tokenizer) {
  data::SpecialTokenTexts tokens;
  add_named_tokens(settings, tokens);
  const SettingsMeaning meaning = meaning_of(settings, tokenizer);
  for (const std::string_view key : kTokenKeys) {
    const auto role = meaning.roles.find(key.substr(0, key.find('_')));
    if (role != meaning.roles.end()) {
      tokens.emplace(key, tokenizer.token_bytes(role->second));
    }
  }
  if (const auto ends = tokenizer.ends(); settings.gguf && !ends.empty()) {
    tokens.emplace("eos_token", tokenizer.token_bytes(ends.front()));
  }
  return tokens;
}

std::optional<data::ChatTemplate> chat_template_of(const ModelSettings& settings,
                                                   const data::Tokenizer& tokenizer,
                                                   std::string_view name) {
  const SettingsMeaning meaning = meaning_of(settings, tokenizer);
  const auto& templates = meaning.chat_templates;
  const auto find = [&](std::string_view wanted) {
    return std::find_if(templates.begin(), templates.end(),
                        [&](const auto& one) { return one.first == wanted; });
  };
  auto found = find(name.empty() ? kDefaultTemplate : name);
  if (found == templates.end() && name.empty() && templates.size() == 1) found = templates.begin();
  if (found == templates.end()) {
    check(name.empty(), "the model has no chat template '{}'; it has: {}", name,
          fmt::join(names_of(meaning), ", "));
    return std::nullopt;
  }
  return data::ChatTemplate(found->second, special_token_texts(settings, tokenizer));
}

std::optional<data::ChatTemplate> chat_template_or_chatml(const ModelSettings& settings,
                                                          const data::Tokenizer& tokenizer) {
  if (auto own = chat_template_of(settings, tokenizer)) return own;
  for (const std::string_view mark : {"<|im_start|>", "<|im_end|>"}) {
    std::vector<data::Token> tokens;
    try {
      tokens = tokenizer.encode(mark, true);
    } catch (const Error&) {  // a character that the tokenizer does not have
      return std::nullopt;
    }
    if (tokens.size() != 1) return std::nullopt;
  }
  return data::ChatTemplate::chatml();
}

std::vector<data::Token> answer_ends(const data::ChatTemplate& chat_template,
                                     const data::Tokenizer& tokenizer) {
  constexpr std::string_view kAnswer = "0123456789";  // no template changes it
  std::string text;
  std::vector<data::Token> tokens;
  try {
    const data::Conversation conversation{
        .messages = {{.role = "user", .content = "1"},
                     {.role = "assistant", .content = std::string(kAnswer)}}};
    // Two short messages, before anything else is done: no more than for a request.
    text = chat_template.render(conversation, false, {}, data::RenderLimits::of_one_request()).text;
    const std::size_t at = text.rfind(kAnswer);
    if (at == text.npos) return {};
    tokens = tokenizer.encode(text.substr(at + kAnswer.size()), true);
    if (tokens.empty()) return {};
    // White space may stand before it, as in Llama 2's template. What a tokenizer puts before each
    // text is none of the template's.
    const auto is_space = [&](data::Token token) {
      return data::is_blank(tokenizer.token_bytes(token)) && !data::is_special(tokenizer, token);
    };
    const auto first = std::find_if_not(tokens.begin(), tokens.end(), is_space);
    if (first == tokens.end() || !data::is_special(tokenizer, *first)) return {};
    return {*first};
  } catch (const Error&) {  // a template that refuses this conversation, or characters
    return {};
  }
}

}  // namespace tapegrad::run
