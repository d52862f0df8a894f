#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_scored.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"
#include "tapegrad/run/models/formats/gguf/internal/written_tokenizer.h"
#include "tapegrad/run/models/formats/internal/pre_tokenizer_steps.h"

namespace tapegrad::run {
namespace {

using nlohmann::json;

constexpr std::string_view kEndNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Tokens as GGUF has them.
struct WrittenVocabulary {
  std::vector<std::string> tokens, merges;
  std::vector<std::int64_t> types;
  std::vector<double> scores;  // of the kind "llama"
  bool adds_space = false;     // and its key add_space_prefix
  std::string_view pre = "gpt-2";
  bool nfc = false;  // texts are normalized first: see kNfc
  std::optional<std::int64_t> begin, end, unknown;
};

WrittenVocabulary vocabulary_of_characters(const data::Tokenizer& tokenizer) {
  WrittenVocabulary v;
  std::set<std::string> merged;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string bytes = tokenizer.token_bytes(token);
    v.tokens.push_back(bytes.empty() ? fmt::format("[PAD{}]", token) : data::shown_bytes(bytes));
    v.types.push_back(bytes.empty() ? kUnusedToken : kNormalToken);
    // Merges build the character from its bytes. No merge reaches across two characters: the first
    // part begins with a character's first byte, and the second part is never one.
    for (std::size_t n = 1; n < bytes.size(); ++n) {
      const std::string merge =
          data::shown_bytes(bytes.substr(0, n)) + " " + data::shown_bytes(bytes.substr(n, 1));
      if (merged.insert(merge).second) v.merges.push_back(merge);
    }
  }
  return v;
}

// llama-bpe takes a piece that is a token as a whole for this token.
void check_whole_tokens(const data::Tokenizer& tokenizer) {
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string bytes = tokenizer.token_bytes(token);
    if (bytes.empty() || find_invalid_utf8(bytes)) continue;
    const auto tokens = tokenizer.encode(bytes, true);
    check(tokens.size() == 1 && tokens[0] == token,
          "llama.cpp would encode '{}' as one token, and this tokenizer does not: its file lacks "
          "ignore_merges",
          bytes);
  }
}

// llama.cpp's name for all that the tokenizer does to a text before it merges. Error, by name, for
// what llama.cpp has no word for.
const KnownPreTokenizer& pre_of(const json& file, const data::Tokenizer& tokenizer) {
  const std::string steps = steps_of(member(file, "pre_tokenizer"));
  const std::string normalizer = steps_of(member(file, "normalizer"));
  const bool nfc = normalizer == "NFC";
  check(normalizer.empty() || nfc,
        "llama.cpp does not normalize texts, as this tokenizer does, by {}", normalizer);
  const bool ignores_merges = flag(file.at("model"), "ignore_merges", false);
  for (const KnownPreTokenizer& pre : pre_tokenizers()) {
    if (pre.steps != steps) continue;
    check(
        !nfc || pre.nfc,
        "llama.cpp does not normalize texts with the pre-tokenizer {}, as this tokenizer does, by "
        "{}",
        pre.name, normalizer);
    check(!ignores_merges || pre.ignores_merges,
          "llama.cpp does not know ignore_merges with the pre-tokenizer {}", pre.name);
    if (pre.ignores_merges && !ignores_merges) check_whole_tokens(tokenizer);
    return pre;
  }
  fail(
      "llama.cpp has no name for the tokenizer's pre-tokenizer, {}; only those of {} can be "
      "exported",
      steps.substr(0, 200), names_of_pre_tokenizers(&KnownPreTokenizer::title));
}

// llama.cpp finds added tokens in a text as it is.
void check_added_token(const json& added, const std::string& normalizer) {
  const auto content = added.at("content").get<std::string>();
  for (const char* name : {"lstrip", "rstrip"}) {
    check(!flag(added, name, false), "llama.cpp has no {}, which the token '{}' has", name,
          content);
  }
  const bool normalized = flag(added, "normalized", !flag(added, "special", false));
  check(!normalized || normalizer.empty(),
        "llama.cpp finds added tokens in the text as it is, and '{}' is found in what {} makes of "
        "it: \"normalized\": false in tokenizer.json can be exported",
        content, normalizer);
}

void add_tokens(WrittenVocabulary& v, const json& file, std::size_t size) {
  const bool scored = !v.scores.empty();
  v.tokens.resize(size);
  v.types.assign(size, kUnusedToken);
  for (const auto& [text, id] : file.at("model").at("vocab").items()) {
    const auto i = id.get<std::size_t>();
    v.tokens.at(i) = text;
    // A token that is not written in bytes can only be an added one, or is in no text.
    if (scored || data::bytes_of_shown(text)) v.types[i] = kNormalToken;
    if (scored && data::byte_of_shown(text)) v.types[i] = kByteToken;
  }
  const std::string normalizer = steps_of(member(file, "normalizer"));
  for (const json& added : member(file, "added_tokens")) {
    check_added_token(added, normalizer);
    const auto i = added.at("id").get<std::size_t>();
    v.tokens.at(i) = added.at("content").get<std::string>();
    v.types[i] = flag(added, "special", false) ? kControlToken : kUserDefinedToken;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (v.types[i] == kUnusedToken) v.tokens[i] = fmt::format("[PAD{}]", i);
  }
  const json& unknown = member(file.at("model"), "unk_token");
  if (!scored || unknown.is_null()) return;
  v.unknown = file.at("model").at("vocab").at(unknown.get<std::string>()).get<std::int64_t>();
  v.types[static_cast<std::size_t>(*v.unknown)] = kUnknownToken;
}

WrittenVocabulary vocabulary_of_json(const data::Tokenizer& tokenizer) {
  const auto file = parse_json<json>(tokenizer.hf_json(), 16);
  check(
      member(file.at("model"), "type") != json("Unigram"),
      "llama.cpp's Unigram normalizes texts in another way than tokenizers: it cannot be exported");
  WrittenVocabulary v;
  const auto size = static_cast<std::size_t>(tokenizer.vocab_size());
  const bool scored = falls_back_to_bytes(file);
  if (scored) {
    v.adds_space = adds_space(file);
    v.scores = scores_of_json(file, size);
  } else {
    v.pre = pre_of(file, tokenizer).name;
    v.nfc = !steps_of(member(file, "normalizer")).empty();
  }
  add_tokens(v, file, size);
  for (const json& merge : file.at("model").at("merges")) {
    if (scored) break;  // scores say it
    v.merges.push_back(merge.is_string()
                           ? merge.get<std::string>()
                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  check(tokenizer.begin().size() <= 1, "llama.cpp begins texts with one token, not with {}",
        tokenizer.begin().size());
  if (!tokenizer.begin().empty()) v.begin = tokenizer.begin()[0];
  if (const auto ends = tokenizer.ends(); !ends.empty()) v.end = ends.front();
  return v;
}

}  // namespace

bool add_gguf_tokenizer(GgufKeys& keys, const data::Tokenizer& tokenizer) {
  WrittenVocabulary v = tokenizer.kind() == "char" ? vocabulary_of_characters(tokenizer)
                                                   : vocabulary_of_json(tokenizer);
  std::unordered_set<std::string_view> seen;
  for (const std::string& text : v.tokens) {
    check(seen.insert(text).second, "two tokens are written '{}', of which GGUF allows one", text);
  }
  const bool adds_end = !v.end;
  if (adds_end) {
    const auto* name = std::find_if(std::begin(kEndNames), std::end(kEndNames),
                                    [&](std::string_view n) { return seen.count(n) == 0; });
    check(name != std::end(kEndNames), "the tokenizer has no token that ends texts, but its names");
    v.end = std::ssize(v.tokens);
    v.tokens.emplace_back(*name);
    v.types.push_back(kControlToken);
    if (!v.scores.empty()) v.scores.push_back(0);
    keys[kMeanEndRow] = true;
  }
  if (v.scores.empty()) {
    if (pre_tokenizer(v.pre).nfc) keys[kNfc] = v.nfc;
    keys[kTokenizerKey + "model"] = std::string("gpt2");
    keys[kTokenizerKey + "pre"] = std::string(v.pre);
    keys[kTokenizerKey + "merges"] = std::move(v.merges);
  } else {
    keys[kTokenizerKey + "model"] = std::string("llama");
    keys[kTokenizerKey + "pre"] = std::string("default");
    keys[kTokenizerKey + "scores"] = std::move(v.scores);
    keys[kTokenizerKey + "add_space_prefix"] = v.adds_space;
    if (v.unknown) keys[kTokenizerKey + "unknown_token_id"] = *v.unknown;
  }
  keys[kTokenizerKey + "add_bos_token"] = v.begin.has_value();
  keys[kTokenizerKey + "bos_token_id"] = v.begin.value_or(*v.end);
  keys[kTokenizerKey + "eos_token_id"] = *v.end;
  keys[kTokenizerKey + "tokens"] = std::move(v.tokens);
  keys[kTokenizerKey + "token_type"] = std::move(v.types);
  check_written_tokenizer(keys, tokenizer);
  return adds_end;
}

}  // namespace tapegrad::run
