#include "tapegrad/data/tokenize/hf/internal/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A class of transformers 5 that makes its rule by itself. The rule of these is ByteLevel, with
// what is said here. (CodeGenTokenizer is GPT2Tokenizer by another name.)
struct RuleClass {
  std::string_view name;
  bool nfc = false, qwen2_split = false;
  std::string_view begin = "<|endoftext|>";  // what bos_token is if no file says
};
constexpr RuleClass kRuleClasses[] = {{"GPT2Tokenizer"},
                                      {"CodeGenTokenizer"},
                                      {.name = "GPTNeoXTokenizer", .nfc = true},
                                      {"Qwen2Tokenizer", true, true, ""}};

// The class that transformers takes for a model_type if no file names one. Where it is generic, no
// class has a rule, whatever the files name: see class_of().
struct ModelClass {
  std::string_view model_type, name;
};
constexpr std::string_view kGeneric = "TokenizersBackend";
constexpr ModelClass kModelClasses[] = {{"gpt2", "GPT2Tokenizer"},
                                        {"gpt_neo", "GPT2Tokenizer"},
                                        {"gptj", "GPT2Tokenizer"},
                                        {"gpt_bigcode", "GPT2Tokenizer"},
                                        {"codegen", "GPT2Tokenizer"},
                                        {"opt", "GPT2Tokenizer"},
                                        {"phi", "GPT2Tokenizer"},
                                        {"starcoder2", "GPT2Tokenizer"},
                                        {"gpt_neox", "GPTNeoXTokenizer"},
                                        {"olmo", "GPTNeoXTokenizer"},
                                        {"olmo2", "GPTNeoXTokenizer"},
                                        {"stablelm", "GPTNeoXTokenizer"},
                                        {"qwen2", "Qwen2Tokenizer"},
                                        {"qwen2_moe", "Qwen2Tokenizer"},
                                        {"qwen3", "Qwen2Tokenizer"},
                                        {"qwen3_moe", "Qwen2Tokenizer"},
                                        {"granite", kGeneric},
                                        {"mistral", kGeneric},
                                        {"ministral", kGeneric},
                                        {"mixtral", kGeneric},
                                        {"phi3", kGeneric}};

std::string text_or_none(const json& object, const char* name) {
  const json& value = json_member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

bool config_flag(const json& config, const char* name) {
  const json& value = json_member(config, name);
  check(value.is_null() || value.is_boolean(), "{}: \"{}\" must be true or false, not {}",
        kTokenizerConfig, name, value.type_name());
  return value.is_boolean() && value.get<bool>();
}

// The name of the class by which AutoTokenizer opens the folder; "" if nothing names one.
std::string class_of(const json& config, const json& model) {
  const std::string type = text_or_none(model, "model_type");
  const auto* const own =
      std::find_if(std::begin(kModelClasses), std::end(kModelClasses),
                   [&](const ModelClass& known) { return known.model_type == type; });
  const bool has_own = own != std::end(kModelClasses);
  std::string named = text_or_none(config, "tokenizer_class");
  if (named.empty()) named = text_or_none(model, "tokenizer_class");
  constexpr std::string_view fast = "Fast";
  if (named.ends_with(fast)) named.resize(named.size() - fast.size());
  // transformers does not believe what folders of Qwen2's say.
  const bool overrules = has_own && (own->name == kGeneric || type == "qwen2");
  return has_own && (overrules || named.empty()) ? std::string(own->name) : named;
}

const RuleClass* rule_of(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRuleClasses), std::end(kRuleClasses),
                   [&](const RuleClass& known) { return known.name == name; });
  return found == std::end(kRuleClasses) ? nullptr : found;
}

// Without a class, vocab.json and merges.txt are GPT-2's.
const RuleClass& rule_of_merges(const std::string& name, const json& model) {
  const std::string type = text_or_none(model, "model_type");
  check(
      !name.empty() || type.empty(),
      "neither \"tokenizer_class\" of {} nor the model_type '{}' says by which rule texts are cut "
      "for vocab.json and merges.txt: a tokenizer.json does",
      kTokenizerConfig, type);
  const RuleClass* const rule = name.empty() ? &kRuleClasses[0] : rule_of(name);
  check(rule != nullptr,
        "the tokenizer_class {} is not known, which says how texts are cut for vocab.json and "
        "merges.txt: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers "
        "makes a tokenizer.json of it",
        name);
  return *rule;
}

json byte_level(bool regex, bool prefix) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix},
          {"trim_offsets", true},
          {"use_regex", regex}};
}

void set_rule(json& file, const RuleClass& rule, bool prefix) {
  if (rule.nfc) file["normalizer"] = {{"type", "NFC"}};
  file["pre_tokenizer"] = byte_level(!rule.qwen2_split, prefix);
  if (!rule.qwen2_split) return;
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kQwen2Split}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {split, byte_level(false, prefix)}}};
}

// A token that the config names, before and behind each text.
void set_ends(json& file, const RuleClass& rule, const json& config, const fs::path& folder) {
  const bool alone = json_member(config, "added_tokens_decoder").is_object();
  const json map = alone ? json::object() : json_settings(folder / "special_tokens_map.json");
  const auto named = [&](const char* role, std::string_view absent) {
    for (const json* from : {&map, &config}) {
      const json& value = json_member(*from, role);
      if (value.is_string()) return value.get<std::string>();
      if (value.is_object()) return text_or_none(value, "content");
      if (from->contains(role)) return std::string();
    }
    return std::string(absent);
  };
  json single = json::array();
  const auto add = [&](const char* flag, const char* role, std::string_view absent) {
    const std::string text = named(role, absent);
    if (config_flag(config, flag) && !text.empty()) {
      single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    }
  };
  add("add_bos_token", "bos_token", rule.begin);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("add_eos_token", "eos_token", "<|endoftext|>");
  if (single.size() == 1) return;
  json tokens = json::object();
  for (const json& part : single) {
    if (!part.contains("SpecialToken")) continue;
    const json& text = part["SpecialToken"]["id"];
    for (const json& added : json_member(file, "added_tokens")) {
      if (json_member(added, "content") != text) continue;
      tokens[text.get<std::string>()] = {
          {"id", text}, {"ids", {added.at("id")}}, {"tokens", {text}}};
    }
  }
  json pair = single;
  for (const json& part : single) pair.push_back(part);
  for (std::size_t i = single.size(); i < pair.size(); ++i) {
    json& inner = pair[i].begin().value();
    inner["type_id"] = 1;
    if (pair[i].contains("Sequence")) inner["id"] = "B";
  }
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", std::move(single)},
                            {"pair", std::move(pair)},
                            {"special_tokens", std::move(tokens)}};
}

// Sets the flag of each ByteLevel. Returns whether one has changed.
bool set_prefix(json& step, bool prefix) {
  if (!step.is_object()) return false;
  bool changed = false;
  const auto parts = step.find("pretokenizers");
  if (parts != step.end() && parts->is_array()) {
    for (json& part : *parts) changed = set_prefix(part, prefix) || changed;
  }
  if (json_member(step, "type") != json("ByteLevel")) return changed;
  if (json_member(step, "add_prefix_space") == json(prefix)) return changed;
  step["add_prefix_space"] = prefix;
  return true;
}

// transformers puts another expression there, in files of before its version 5.
void refuse_mistral_regex(const HfFile& file, const json& config, const json& model) {
  constexpr std::size_t fewest = 100'000;  // tokens of the tokenizers that it corrects
  const std::string version = text_or_none(model, "transformers_version");
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  const std::string type = text_or_none(model, "model_type");
  const bool is_mistral = type.empty() || type == "mistral" || type == "ministral";
  const bool applies = file.tokens() + json_member(file.rest(), "added_tokens").size() > fewest &&
                       major < 5 && is_mistral;
  check(!applies || !config_flag(config, "fix_mistral_regex"),
        "{}: \"fix_mistral_regex\": true is not supported: "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers 5 writes a "
        "tokenizer.json with it",
        kTokenizerConfig);
}

}  // namespace

bool apply_tokenizer_config(HfFile& file, const fs::path& folder, TokenizerTables tables) {
  const json config = json_settings(folder / kTokenizerConfig);
  const json model = json_settings(folder / "config.json");
  check(!config_flag(config, "split_special_tokens"),
        "{}: \"split_special_tokens\": true is not supported: without it, texts may have special "
        "tokens where a program allows them",
        kTokenizerConfig);
  json& rest = file.rest();
  if (tables == TokenizerTables::pieces || !rest.is_object()) return false;
  const std::string name = class_of(config, model);
  const bool prefix = config_flag(config, "add_prefix_space");
  if (tables == TokenizerTables::merges) {
    const RuleClass& rule = rule_of_merges(name, model);
    set_rule(rest, rule, prefix);
    set_ends(rest, rule, config, folder);
    return true;
  }
  refuse_mistral_regex(file, config, model);
  const bool is_read =
      rule_of(name) != nullptr && json_member(config, "add_prefix_space").is_boolean();
  const auto pre_tokenizer = rest.find("pre_tokenizer");
  return is_read && pre_tokenizer != rest.end() && set_prefix(*pre_tokenizer, prefix);
}

}  // namespace tapegrad::data
