#include "tapegrad/data/tokenize/hf/internal/outside_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kMostBytes = 16 << 20;
constexpr int kDepth = 64;
constexpr const char *kConfig = "tokenizer_config.json", *kMap = "special_tokens_map.json",
                     *kAdded = "added_tokens.json";
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};
constexpr const char* kLists[] = {"additional_special_tokens", "extra_special_tokens"};
constexpr const char* kFlags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};

// A token as an element of "added_tokens" has it, without "id".
struct Outside {
  json token;
  std::optional<std::int64_t> id;
  const char* file;
  bool has_flags = false;  // which count more than those of tokenizer.json

  std::string content() const { return token.at("content").get<std::string>(); }
};

json token_of(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false},   {"lstrip", false},
          {"rstrip", false},    {"normalized", !special}, {"special", special}};
}

// A token as settings name it: a text, or an object with its flags. Nothing if it is neither.
std::optional<json> named_token(const json& value) {
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    return token_of(value.get<std::string>(), true);
  }
  if (!value.is_object() || !json_member(value, "content").is_string()) return std::nullopt;
  json token = token_of(value.at("content").get<std::string>(), true);
  for (const char* flag : kFlags) {
    if (const auto own = value.find(flag); own != value.end() && own->is_boolean()) {
      token[flag] = *own;
    }
  }
  return token;
}

// "added_tokens_decoder": objects by their ids.
std::map<std::int64_t, Outside> tokens_of_decoder(const json& decoder) {
  std::map<std::int64_t, Outside> tokens;
  for (const auto& [key, value] : decoder.items()) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && id >= 0;
    auto token = named_token(value);
    check(is_id && token, "{}: added_tokens_decoder: '{}' is no token with an id", kConfig, key);
    const bool special = json_flag(value, "special", false);
    (*token)["special"] = special;
    if (!value.contains("normalized")) (*token)["normalized"] = !special;
    tokens.emplace(id, Outside{*std::move(token), id, kConfig, true});
  }
  return tokens;
}

std::map<std::int64_t, Outside> tokens_of_file(const fs::path& path,
                                               const std::set<std::string>& special) {
  std::map<std::int64_t, Outside> tokens;
  if (!path_exists(path)) return tokens;
  const json file = parse_json<json>(read_file(path, kMostBytes), kDepth);
  check(file.is_object(), "{} is not an object", kAdded);
  for (const auto& [content, id] : file.items()) {
    check(id.is_number_unsigned(), "{}: '{}' has no id", kAdded, content);
    const auto number = id.get<std::int64_t>();
    const Outside token{token_of(content, special.count(content) != 0), number, kAdded};
    check(tokens.emplace(number, token).second, "{}: two tokens have the id {}", kAdded, number);
  }
  return tokens;
}

// In the order in which transformers adds them.
std::vector<Outside> tokens_outside(const fs::path& folder) {
  const json config = json_settings(folder / kConfig);
  const json& decoder = json_member(config, "added_tokens_decoder");
  // Where it is there, transformers reads no other file.
  const json map = decoder.is_object() ? json::object() : json_settings(folder / kMap);
  std::vector<Outside> named;
  const auto add_named = [&](const json& value, const char* file) {
    if (auto token = named_token(value)) named.push_back({*std::move(token), std::nullopt, file});
  };
  for (const char* role : kRoles) {
    const bool in_map = map.contains(role);
    add_named(json_member(in_map ? map : config, role), in_map ? kMap : kConfig);
  }
  for (const json* from : {&config, &map}) {
    for (const char* list : kLists) {
      const json& values = json_member(*from, list);
      if (!values.is_structured()) continue;
      for (const json& value : values) add_named(value, from == &map ? kMap : kConfig);
    }
  }
  std::set<std::string> special;
  for (const Outside& token : named) special.insert(token.content());
  std::vector<Outside> all;
  for (auto& [id, token] : decoder.is_object() ? tokens_of_decoder(decoder)
                                               : tokens_of_file(folder / kAdded, special)) {
    all.push_back(token);
  }
  all.insert(all.end(), named.begin(), named.end());
  return all;
}

// The ids of the vocabulary's tokens, read when they are needed.
class VocabularyIds {
 public:
  explicit VocabularyIds(const HfFile& file) : file_(file) {}

  std::optional<std::int64_t> id_of(const std::string& content) {
    if (places_.empty()) {
      for (std::size_t k = 0; k < file_.tokens(); ++k) places_.emplace(file_.shown(k), k);
    }
    const auto found = places_.find(content);
    if (found == places_.end()) return std::nullopt;
    const json& id = file_.id(found->second);
    check(id.is_number_unsigned(), "'{}' has no id", content);
    return id.get<std::int64_t>();
  }
  bool has(std::int64_t id) {
    const bool fills = taken_.empty();
    for (std::size_t k = 0; fills && k < file_.tokens(); ++k) {
      if (file_.id(k).is_number_unsigned()) taken_.insert(file_.id(k).get<std::int64_t>());
    }
    return taken_.count(id) != 0;
  }

 private:
  const HfFile& file_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::unordered_set<std::int64_t> taken_;
};

// The ids that the added tokens of a tokenizer.json have, and get.
class Ids {
 public:
  explicit Ids(HfFile& file) : file_(file) {
    for (std::size_t i = 0; i < added().size(); ++i) note(i);
  }

  // True if the file has changed.
  bool add(const Outside& outside) {
    const std::string content = outside.content();
    if (content.empty()) return false;
    if (const auto found = places_.find(content); found != places_.end()) {
      json& token = added()[found->second];
      check_id(outside, token.at("id").get<std::int64_t>());
      return outside.has_flags && set_flags(token, outside.token);
    }
    const std::int64_t id = id_in_vocabulary(content).value_or(next());
    check_id(outside, id);
    json token = outside.token;
    token["id"] = static_cast<std::uint64_t>(id);
    added().push_back(std::move(token));
    note(added().size() - 1);
    return true;
  }

 private:
  json& added() { return file_.rest()["added_tokens"]; }

  void note(std::size_t place) {
    const json& token = added()[place];
    const bool is_token = token.is_object() && json_member(token, "content").is_string() &&
                          json_member(token, "id").is_number_unsigned() &&
                          token["id"].get<std::uint64_t>() < file_.most_tokens();
    if (!is_token) return;  // which its reader refuses
    places_.emplace(token.at("content").get<std::string>(), place);
    largest_ = std::max(largest_, token.at("id").get<std::int64_t>());
  }

  static void check_id(const Outside& outside, std::int64_t id) {
    check(!outside.id || *outside.id == id,
          "{} says that the added token '{}' has the id {}, which beside this tokenizer is {}",
          outside.file, outside.content(), outside.id.value_or(0), id);
  }

  static bool set_flags(json& token, const json& flags) {
    bool changed = false;
    for (const char* flag : kFlags) {
      const json& value = flags.at(flag);
      const bool absent =
          std::string_view(flag) == "normalized" && !json_flag(token, "special", false);
      if (json_flag(token, flag, absent) == value.get<bool>()) continue;
      token[flag] = value;
      changed = true;
    }
    return changed;
  }

  std::optional<std::int64_t> id_in_vocabulary(const std::string& content) {
    return vocabulary_.id_of(content);
  }

  std::int64_t next() const {
    return std::max(static_cast<std::int64_t>(file_.tokens()), largest_ + 1);
  }

  HfFile& file_;
  std::unordered_map<std::string, std::size_t> places_;  // of contents in added()
  VocabularyIds vocabulary_{file_};
  std::int64_t largest_ = -1;
};

}  // namespace

bool add_outside_tokens(HfFile& file, const fs::path& folder) {
  const std::vector<Outside> outside = tokens_outside(folder);
  if (outside.empty() || !file.rest().is_object()) return false;
  json& added = file.rest()["added_tokens"];
  if (added.is_null()) added = json::array();
  if (!added.is_array()) return false;  // which its reader refuses
  Ids ids(file);
  bool changed = false;
  for (const Outside& token : outside) changed |= ids.add(token);
  return changed;
}

bool number_added_tokens(HfFile& file) {
  if (!file.rest().is_object()) return false;
  const auto added = file.rest().find("added_tokens");
  if (added == file.rest().end() || !added->is_array()) return false;
  VocabularyIds vocabulary(file);
  std::unordered_map<std::string, std::int64_t> ids;  // of those so far
  auto next = static_cast<std::int64_t>(file.tokens());
  json numbered = json::array();
  for (json token : *added) {
    const bool is_token = token.is_object() && json_member(token, "content").is_string() &&
                          json_member(token, "id").is_number_unsigned();
    if (!is_token) return false;  // which its reader refuses
    const auto content = token.at("content").get<std::string>();
    if (content.empty()) continue;  // which Hugging Face's reader ignores
    auto found = ids.find(content);
    if (found == ids.end()) {
      const auto own = vocabulary.id_of(content);
      if (!own && token["id"] != next && vocabulary.has(next)) return false;
      found = ids.emplace(content, own.value_or(next)).first;
      next = std::max(next, found->second + 1);
    }
    token["id"] = static_cast<std::uint64_t>(found->second);
    numbered.push_back(std::move(token));
  }
  if (numbered == *added) return false;
  *added = std::move(numbered);
  return true;
}

}  // namespace tapegrad::data
