#include "tapegrad/data/tokenize/sentencepiece/internal/sentencepiece_rules.h"

#include <limits>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"
#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

std::unordered_set<Token> ids_at(const json& own, const char* name) {
  const json& list = json_member(own, name);
  check(list.is_array(), "\"{}\" of \"{}\" must be a list", name, kSentencePieceKey);
  std::unordered_set<Token> ids;
  for (const json& id : list) {
    check(id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<Token>::max(),
          "\"{}\" of \"{}\" has an id that is none", name, kSentencePieceKey);
    ids.insert(id.get<Token>());
  }
  return ids;
}

}  // namespace

std::optional<SentencePieceRules> read_sentencepiece_rules(const json& file) {
  const json& own = json_member(json_member(file, "model"), kSentencePieceKey);
  if (own.is_null()) return std::nullopt;
  check(own.is_object(), "\"{}\" must be an object, not {}", kSentencePieceKey, own.type_name());
  SentencePieceRules rules;
  rules.text.add_dummy_prefix = json_flag(own, "add_dummy_prefix", true);
  rules.text.remove_extra_whitespaces = json_flag(own, "remove_extra_whitespaces", true);
  rules.text.prefix_first = json_flag(own, "prefix_first", false);
  rules.silent = ids_at(own, "silent");
  rules.symbols = ids_at(own, "symbols");
  if (const json& surface = json_member(own, "unknown_surface"); !surface.is_null()) {
    const json& id = json_member(own, "unknown");
    check(id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<Token>::max(),
          "\"unknown\" of \"{}\" is no id", kSentencePieceKey);
    rules.unknown = id.get<Token>();
    rules.unknown_surface = json_text_at(own, "unknown_surface");
  }
  for (const json& part : json_parts(json_member(file, "normalizer"), "normalizers")) {
    if (json_text_at(part, "type") != "Precompiled") continue;
    constexpr const char* name = "precompiled_charsmap";
    rules.text.charsmap.emplace(
        bytes_of_base64(json_text_at(part, name), "\"precompiled_charsmap\""));
  }
  return rules;
}

void add_symbols(SentencePieceRules& rules, const HfVocabulary& vocabulary) {
  for (std::size_t k = 0; k < vocabulary.size(); ++k) {
    if (rules.symbols.count(vocabulary[k]) == 0 || vocabulary.shown(k).empty()) continue;
    rules.text.symbols.add(vocabulary.shown(k), vocabulary[k]);
  }
}

}  // namespace tapegrad::data
