#include "tapegrad/run/models/formats/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>

#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/byte_alphabet.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/hf/pre_tokenizer.h"
#include "tapegrad/run/models/families/family.h"
#include "tapegrad/run/models/families/family_keys.h"
#include "tapegrad/run/models/formats/pre_tokenizer_steps.h"

namespace tapegrad::run {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

const std::string kKey = "tokenizer.ggml.";
constexpr std::string_view kEndNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// The types of tokens, as files number them.
constexpr std::int64_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

// Tokens as GGUF has them.
struct Vocabulary {
  Texts tokens, merges;
  Numbers types;
  std::string_view pre = "gpt-2";
  bool nfc = false;  // texts are normalized first: see kNfc
  std::optional<std::int64_t> begin, end;
};

// --- in -------------------------------------------------------------------------------------

Vocabulary vocabulary_of(const nn::GgufFile& file, std::int64_t rows) {
  Vocabulary v;
  v.tokens = gguf_value(file, kKey + "tokens", Texts());
  // Without them every text would become single bytes, which no model was trained with. The list
  // itself may be empty, as for characters of one byte each.
  check(file.keys().count(kKey + "merges") != 0,
        "there is no {}merges, without which byte-level BPE cannot encode a text", kKey);
  v.merges = gguf_value(file, kKey + "merges", Texts());
  v.types = gguf_value(file, kKey + "token_type", Numbers(v.tokens.size(), kNormal));
  check(v.types.size() == v.tokens.size(), "{}token_type has {} elements for {} tokens", kKey,
        v.types.size(), v.tokens.size());
  check(std::ssize(v.tokens) == rows, "{} tokens for {} rows of token_embd.weight", v.tokens.size(),
        rows);
  const auto id_of = [&](const char* key) -> std::optional<std::int64_t> {
    if (file.keys().count(kKey + key) == 0) return std::nullopt;
    return gguf_value<std::int64_t>(file, kKey + key, 0);
  };
  v.begin = id_of("bos_token_id");
  v.end = id_of("eos_token_id");
  return v;
}

// A file without types of tokens may name the special ones by their ids alone.
bool is_special(const Vocabulary& v, std::size_t i) {
  const auto id = static_cast<std::int64_t>(i);
  const bool named =
      (v.end == id || v.begin == id) && v.tokens[i].starts_with('<') && v.tokens[i].ends_with('>');
  return v.types[i] == kControl || (v.types[i] == kNormal && named);
}

std::string tokenizer_json_of(const Vocabulary& v, const KnownPreTokenizer& pre, bool begins) {
  json vocab = json::object(), added = json::array();
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const std::string& text = v.tokens[i];
    check(seen.insert(text).second, "the token '{}' is there twice", text);
    if (v.types[i] == kUnused) continue;
    const bool special = is_special(v, i);
    if (special || v.types[i] == kUserDefined) {
      json token = {{"id", i}, {"content", text}, {"special", special}};
      for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
        token[name] = false;  // Hugging Face's reader wants them all
      }
      added.push_back(std::move(token));
    } else {
      check(v.types[i] == kNormal, "the token '{}' is of type {}, which is not supported", text,
            v.types[i]);
      vocab[text] = i;
    }
  }
  const json byte_level = byte_level_step(true);
  json file = {{"version", "1.0"},
               {"added_tokens", std::move(added)},
               {"pre_tokenizer", pre_tokenizer_of(pre)},
               {"decoder", byte_level},
               {"model",
                {{"type", "BPE"},
                 {"ignore_merges", pre.ignores_merges},
                 {"vocab", std::move(vocab)},
                 {"merges", v.merges}}}};
  if (v.nfc) file["normalizer"] = {{"type", "NFC"}};
  if (begins) {
    const bool is_token = v.begin && *v.begin >= 0 && *v.begin < std::ssize(v.tokens);
    check(is_token, "texts begin with a token, which {}bos_token_id does not name", kKey);
    const std::string& text = v.tokens[static_cast<std::size_t>(*v.begin)];
    const json special = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
    const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    file["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {special, sequence}},
        {"pair", {sequence, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens", {{text, {{"id", text}, {"ids", {*v.begin}}, {"tokens", {text}}}}}}};
  }
  return sorted_json_text(file);
}

// The characters, if each token is one, and they ascend, as those of a character tokenizer do.
std::optional<std::string> characters_of(const Vocabulary& v) {
  Texts tokens;
  for (const std::string& text : v.tokens) {
    auto bytes = data::bytes_of_shown(text);
    if (!bytes) return std::nullopt;
    tokens.push_back(*std::move(bytes));
  }
  return data::characters_of(tokens);
}

std::string all_of(std::string_view KnownPreTokenizer::*name) {
  std::vector<std::string_view> names;
  for (const KnownPreTokenizer& pre : pre_tokenizers()) names.push_back(pre.*name);
  return words_in_a_row(names);
}

data::Tokenizer read_tokenizer(const nn::GgufFile& file, std::int64_t rows) {
  const auto model = gguf_value(file, kKey + "model", std::string("none"));
  check(model == "gpt2", "{}model '{}' is not supported, only gpt2: byte-level BPE", kKey, model);
  const auto name = gguf_value(file, kKey + "pre", std::string("default"));
  const auto pre = std::find_if(pre_tokenizers().begin(), pre_tokenizers().end(),
                                [&](const KnownPreTokenizer& known) { return known.name == name; });
  check(pre != pre_tokenizers().end(), "{}pre '{}' is not supported, only {}", kKey, name,
        all_of(&KnownPreTokenizer::name));
  check(!gguf_value(file, kKey + "add_eos_token", false), "{}add_eos_token is not supported", kKey);
  const bool has_end_row = gguf_value(file, kMeanEndRow, false);
  Vocabulary v = vocabulary_of(file, rows + (has_end_row ? 1 : 0));
  if (has_end_row) {
    v.end.reset();
    v.tokens.pop_back();
    v.types.pop_back();
    Vocabulary used = v;  // rows without a character are the last
    while (!used.types.empty() && used.types.back() == kUnused) {
      used.tokens.pop_back();
      used.types.pop_back();
    }
    if (const auto characters = characters_of(used)) {
      return data::Tokenizer::of_characters(*characters).padded(rows);
    }
  }
  v.nfc = gguf_value(file, kNfc, pre->nfc);
  const bool begins = gguf_value(file, kKey + "add_bos_token", pre->begins);
  const auto tokenizer = data::Tokenizer::of_hf(tokenizer_json_of(v, *pre, begins)).padded(rows);
  return v.end ? tokenizer.ending_at({&*v.end, 1}) : tokenizer;
}

// --- out ------------------------------------------------------------------------------------

Vocabulary vocabulary_of_characters(const data::Tokenizer& tokenizer) {
  Vocabulary v;
  std::set<std::string> merged;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string bytes = tokenizer.token_bytes(token);
    v.tokens.push_back(bytes.empty() ? fmt::format("[PAD{}]", token) : data::shown_bytes(bytes));
    v.types.push_back(bytes.empty() ? kUnused : kNormal);
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

const KnownPreTokenizer& pre_of(const json& file, const data::Tokenizer& tokenizer) {
  const std::string steps = steps_of(member(file, "pre_tokenizer"));
  const bool nfc = !steps_of(member(file, "normalizer")).empty();
  const bool ignores_merges = flag(file.at("model"), "ignore_merges", false);
  for (const KnownPreTokenizer& pre : pre_tokenizers()) {
    if (pre.steps != steps) continue;
    check(!nfc || pre.nfc, "llama.cpp does not normalize texts, as this tokenizer does");
    check(!ignores_merges || pre.ignores_merges,
          "llama.cpp does not know ignore_merges with the pre-tokenizer {}", pre.name);
    if (pre.ignores_merges && !ignores_merges) check_whole_tokens(tokenizer);
    return pre;
  }
  fail("llama.cpp has no name for the tokenizer's pre-tokenizer; only those of {} can be exported",
       all_of(&KnownPreTokenizer::title));
}

Vocabulary vocabulary_of_json(const data::Tokenizer& tokenizer) {
  const auto file = parse_json<json>(tokenizer.hf_json(), 16);
  Vocabulary v;
  v.pre = pre_of(file, tokenizer).name;
  v.nfc = !steps_of(member(file, "normalizer")).empty();
  const auto size = static_cast<std::size_t>(tokenizer.vocab_size());
  v.tokens.resize(size);
  v.types.assign(size, kUnused);
  for (const auto& [text, id] : file.at("model").at("vocab").items()) {
    const auto i = id.get<std::size_t>();
    v.tokens.at(i) = text;
    // What is not written in bytes can only be an added token, or is in no text.
    if (data::bytes_of_shown(text)) v.types[i] = kNormal;
  }
  for (const json& added : member(file, "added_tokens")) {
    const auto i = added.at("id").get<std::size_t>();
    v.tokens.at(i) = added.at("content").get<std::string>();
    v.types[i] = flag(added, "special", false) ? kControl : kUserDefined;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (v.types[i] == kUnused) v.tokens[i] = fmt::format("[PAD{}]", i);
  }
  for (const json& merge : file.at("model").at("merges")) {
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

data::Tokenizer gguf_tokenizer(const nn::GgufFile& file, std::int64_t rows) {
  try {
    return read_tokenizer(file, rows);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with(file.name())) throw;
    fail("{}: the tokenizer: {}", file.name(), what);
  }
}

bool is_gguf_tokenizer(const nn::GgufFile& file, const data::Tokenizer& tokenizer) {
  try {
    const data::Tokenizer own = gguf_tokenizer(file, tokenizer.vocab_size());
    return own.kind() == tokenizer.kind() && own.ends() == tokenizer.ends() &&
           own.hf_json() == tokenizer.hf_json();
  } catch (const Error&) {
    return false;
  }
}

bool add_gguf_tokenizer(nn::GgufKeys& keys, const data::Tokenizer& tokenizer) {
  Vocabulary v = tokenizer.kind() == "char" ? vocabulary_of_characters(tokenizer)
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
    v.types.push_back(kControl);
    keys[kMeanEndRow] = true;
  }
  if (pre_tokenizer(v.pre).nfc) keys[kNfc] = v.nfc;
  keys[kKey + "model"] = std::string("gpt2");
  keys[kKey + "pre"] = std::string(v.pre);
  keys[kKey + "add_bos_token"] = v.begin.has_value();
  keys[kKey + "bos_token_id"] = v.begin.value_or(*v.end);
  keys[kKey + "eos_token_id"] = *v.end;
  keys[kKey + "tokens"] = std::move(v.tokens);
  keys[kKey + "token_type"] = std::move(v.types);
  keys[kKey + "merges"] = std::move(v.merges);
  return adds_end;
}

}  // namespace tapegrad::run
