#include "tapegrad/run/models/formats/hf/internal/hf_texts.h"

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/hf/hf_out.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/run/models/formats/internal/pre_tokenizer_steps.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The first token of a text, and those that end it; null where there is none. Without these lines,
// transformers would take GPT-2's.
struct Ends {
  std::optional<data::Token> begin, end;  // `end`: for files that have one
  std::vector<data::Token> all;
  Ends(const data::Tokenizer& tokenizer, const ModelSettings& settings,
       const SettingsMeaning& meaning)
      : all(tokenizer.ends()) {
    // Files of others name the token that begins texts, if there is one. With our own tokenizers,
    // a text begins behind the end of the one before.
    if (tokenizer.kind() != "hf") begin = tokenizer.end_of_text();
    if (settings.begin && *settings.begin < tokenizer.vocab_size()) {
      begin = static_cast<data::Token>(*settings.begin);
    }
    const auto named = meaning.roles.find("bos");
    if (named != meaning.roles.end()) begin = named->second;
    if (!tokenizer.begin().empty()) begin = tokenizer.begin().front();
    if (!all.empty()) end = all.front();
  }
  Json json() const { return all.size() > 1 ? Json(all) : json_of(end); }
};

// The keys of all families, then the family's own. Mind the names: two versions of transformers
// read it, and llama.cpp's converter. `alone`: no other file says all ends.
Json config_json_of(const Family& family, const nn::DecoderConfig& c, const Ends& ends,
                    std::string_view dtype, bool alone) {
  Json json = {{"architectures", Json::array({family.hf.model_class})},
               {"model_type", family.name},
               {"vocab_size", c.vocab_size},
               {"tie_word_embeddings", c.tied},
               {"initializer_range", 0.02},
               {"use_cache", true},
               {"bos_token_id", json_of(ends.begin)},
               {"eos_token_id", alone ? ends.json() : json_of(ends.end)},
               {"dtype", dtype}};
  set_hf_config(family, c, json);
  return json;
}

// The class is one that takes the file as it is.
Json tokenizer_config_json(const data::Tokenizer& tokenizer, const Ends& ends,
                           std::int64_t block_size, const SettingsMeaning& meaning) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", block_size},
               {"clean_up_tokenization_spaces", false}};
  for (const auto& [role, token] : meaning.roles) {
    json[role + "_token"] = tokenizer.token_bytes(token);
  }
  if (ends.begin) json["bos_token"] = tokenizer.token_bytes(*ends.begin);
  if (ends.end) json["eos_token"] = tokenizer.token_bytes(*ends.end);
  const auto& templates = meaning.chat_templates;
  if (templates.size() == 1 && templates[0].first == kDefaultTemplate) {
    json["chat_template"] = templates[0].second;
  } else if (!templates.empty()) {
    for (const auto& [name, text] : templates) {
      json["chat_template"].push_back({{"name", name}, {"template", text}});
    }
  }
  return json;
}

Json generation_config_json(const Ends& ends, const SettingsMeaning& meaning) {
  Json json = {{"_from_model_config", ends.all.size() < 2 && meaning.numbers.empty()},
               {"bos_token_id", json_of(ends.begin)},
               {"eos_token_id", ends.json()}};
  if (const auto pad = meaning.roles.find("pad"); pad != meaning.roles.end()) {
    json["pad_token_id"] = pad->second;
  }
  for (const auto& [name, value] : meaning.numbers) {
    std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  }
  return json;
}

// The settings of a folder of Hugging Face's as they were; where it did not have a file, or the
// model came from elsewhere, what transformers needs.
void write_settings(const TextModel& model, const Ends& ends, const SettingsMeaning& meaning,
                    const fs::path& folder) {
  const auto& files = model.settings.files;
  for (const auto& [name, bytes] : files) {
    if (name != data::kGenerationFile) write_file_atomically(folder / name, bytes);
  }
  if (files.count(kTokenizerConfigFile) == 0) {
    write_json(folder / kTokenizerConfigFile,
               tokenizer_config_json(model.tokenizer, ends, model.gpt.config.block_size, meaning));
  }
  const std::string generation = generation_config_of(model.settings, model.tokenizer);
  if (generation.empty()) {
    write_json(folder / data::kGenerationFile, generation_config_json(ends, meaning));
  } else {
    write_file_atomically(folder / data::kGenerationFile, generation);
  }
}

// Whatever the files say, AutoTokenizer makes the family's own tokenizer of a folder of some
// families, with its own expression to cut a text.
bool is_own_pre_tokenizer(const HfFamily& family, const std::string& tokenizer_json) {
  if (family.own_pre_tokenizer.empty()) return true;
  const KnownPreTokenizer& own = pre_tokenizer(family.own_pre_tokenizer);
  const auto file = parse_json<nlohmann::json>(tokenizer_json, 16);
  return steps_of(member(file, "normalizer")) == (own.nfc ? "NFC" : "") &&
         steps_of(member(file, "pre_tokenizer")) == own.steps &&
         flag(file.at("model"), "ignore_merges", false) == own.ignores_merges;
}

// Before the weights are written. A GGUF may have any bytes there, and more than a JSON file takes.
void check_templates(const ModelSettings& settings, const SettingsMeaning& meaning) {
  const std::string_view place = settings.gguf ? "tokenizer.chat_template"
                                 : settings.files.count(kChatTemplateFile) > 0
                                     ? kChatTemplateFile
                                     : kTokenizerConfigFile;
  constexpr std::size_t most = std::size_t{1} << 20;
  std::size_t bytes = 0;
  for (const auto& [name, text] : meaning.chat_templates) {
    check(!find_invalid_utf8(text), "{}: the chat template '{}' is not UTF-8", place, name);
    bytes += name.size() + text.size();
  }
  check(bytes <= most, "{}: the chat templates have {} bytes: {} can be written", place, bytes,
        most);
}

}  // namespace

HfTexts::HfTexts(const TextModel& model, const nn::DecoderConfig& config, std::string_view dtype)
    : model_(model),
      meaning_(meaning_of(model.settings, model.tokenizer)),
      family_(family_of(config)),
      tokenizer_(model.tokenizer.hf_json()) {
  check_hf_config(config);
  check_templates(model.settings, meaning_);
  const Ends ends(model.tokenizer, model.settings, meaning_);
  config_ = config_json_of(family_, with_window_base(family_.hf.model_class, family_, config), ends,
                           dtype, leaves_out_ends(model.settings));
}

bool HfTexts::has_own_tokenizer() const { return is_own_pre_tokenizer(family_.hf, tokenizer_); }

void HfTexts::require_own_tokenizer() const {
  check(has_own_tokenizer(), "{}", family_.hf.own_pre_tokenizer_only);
}

void HfTexts::write(const fs::path& folder) const {
  write_file_atomically(folder / kTokenizerFile, tokenizer_);
  write_settings(model_, Ends(model_.tokenizer, model_.settings, meaning_), meaning_, folder);
  write_json(folder / kConfigFile, config_);
}

std::vector<std::string_view> hf_text_files() {
  return {data::kGenerationFile, kTokenizerFile,    kTokenizerConfigFile,
          kSpecialTokensFile,    kChatTemplateFile, kConfigFile};
}

}  // namespace tapegrad::run
