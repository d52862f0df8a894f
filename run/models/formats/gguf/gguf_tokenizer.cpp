#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"
#include "tapegrad/data/tokenize/hf/internal/text_index.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_scored.h"
#include "tapegrad/run/models/formats/internal/pre_tokenizer_steps.h"

namespace tapegrad::run {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

// Tokens of a file that is read. Hundreds of thousands of texts stay where its reader has them.
struct Vocabulary {
  std::span<const std::string> tokens, merges;
  Numbers types;
  const KnownPreTokenizer* pre = nullptr;
  bool nfc = false;
  bool begins = false;  // texts begin with the token `begin`
  std::optional<std::int64_t> begin, end;
};

std::span<const std::string> texts_of(const GgufFile& file, const std::string& key) {
  const auto* const texts = find_gguf_value<Texts>(file, key);
  return texts == nullptr ? std::span<const std::string>() : *texts;
}

Vocabulary vocabulary_of(const GgufFile& file, std::int64_t rows) {
  Vocabulary v;
  v.tokens = texts_of(file, kTokenizerKey + "tokens");
  // Without them every text would become single bytes, which no model was trained with. The list
  // itself may be empty, as for characters of one byte each.
  check(file.keys().count(kTokenizerKey + "merges") != 0,
        "there is no {}merges, without which byte-level BPE cannot encode a text", kTokenizerKey);
  v.merges = texts_of(file, kTokenizerKey + "merges");
  v.types = gguf_value(file, kTokenizerKey + "token_type", Numbers(v.tokens.size(), kNormalToken));
  check(v.types.size() == v.tokens.size(), "{}token_type has {} elements for {} tokens",
        kTokenizerKey, v.types.size(), v.tokens.size());
  check(std::ssize(v.tokens) == rows, "{} tokens for {} rows of token_embd.weight", v.tokens.size(),
        rows);
  const auto id_of = [&](const char* key) -> std::optional<std::int64_t> {
    if (file.keys().count(kTokenizerKey + key) == 0) return std::nullopt;
    return gguf_value<std::int64_t>(file, kTokenizerKey + key, 0);
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
  return v.types[i] == kControlToken || (v.types[i] == kNormalToken && named);
}

// The tokenizer.json that fits, but for the elements of its two tables.
json rest_of(const Vocabulary& v) {
  json added = json::array();
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const bool special = is_special(v, i);
    if (!special && v.types[i] != kUserDefinedToken) continue;
    json token = {{"id", i}, {"content", v.tokens[i]}, {"special", special}};
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
      token[name] = false;  // Hugging Face's reader wants them all
    }
    added.push_back(std::move(token));
  }
  const json byte_level = byte_level_step(true);
  json file = {{"version", "1.0"},
               {"added_tokens", std::move(added)},
               {"pre_tokenizer", pre_tokenizer_of(*v.pre)},
               {"decoder", byte_level},
               {"model",
                {{"type", "BPE"},
                 {"ignore_merges", v.pre->ignores_merges},
                 {"vocab", json::object()},
                 {"merges", json::array()}}}};
  if (v.nfc) file["normalizer"] = {{"type", "NFC"}};
  if (v.begins) file["post_processor"] = data::post_processor_of(v.tokens, v.begin);
  return file;
}

// Added tokens are in the vocabulary, too: merges may make them, and Hugging Face's reader would
// number them anew if they were not.
bool is_in_vocabulary(const Vocabulary& v, std::size_t i) { return v.types[i] != kUnusedToken; }

std::string tokenizer_json_of(const Vocabulary& v) {
  json file = rest_of(v);
  json& model = file["model"];
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (is_in_vocabulary(v, i)) model["vocab"][v.tokens[i]] = i;
  }
  model["merges"] = Texts(v.merges.begin(), v.merges.end());
  return sorted_json_text(file);
}

data::HfFile hf_file_of(const Vocabulary& v) {
  data::TextIndex seen(v.tokens.size(),
                       [&](std::size_t i) { return std::string_view(v.tokens[i]); });
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const std::string& text = v.tokens[i];
    check(seen.add(i), "the token '{}' is there twice", text);
    check(v.types[i] == kUnusedToken || v.types[i] == kUserDefinedToken || is_special(v, i) ||
              v.types[i] == kNormalToken,
          "the token '{}' is of type {}, which is not supported", text, v.types[i]);
    if (v.types[i] != kUnusedToken) data::check_text_of_json(text);
  }
  data::HfFile file(rest_of(v), v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (is_in_vocabulary(v, i)) file.add_token(v.tokens[i], i);
  }
  for (const std::string& merge : v.merges) {
    data::check_text_of_json(merge);
    file.add_merge(std::string_view(merge));
  }
  return file;
}

// The characters, if each token is one, and they ascend, as those of a character tokenizer do.
std::optional<std::string> characters_of(const Vocabulary& v) {
  std::size_t used = v.tokens.size();  // rows without a character are the last
  while (used > 0 && v.types[used - 1] == kUnusedToken) --used;
  Texts tokens;
  for (const std::string& text : v.tokens.first(used)) {
    auto bytes = data::bytes_of_shown(text);
    if (!bytes) return std::nullopt;
    tokens.push_back(*std::move(bytes));
  }
  return data::characters_of(tokens);
}

data::Tokenizer read_tokenizer(const std::shared_ptr<const GgufFile>& owner, std::int64_t rows) {
  const GgufFile& file = *owner;
  const auto model = gguf_value(file, kTokenizerKey + "model", std::string("none"));
  if (model == "llama") return read_scored_tokenizer(owner, rows);
  check(model == "gpt2",
        "{}model '{}' is not supported, only gpt2 (byte-level BPE) and llama (SentencePiece's BPE)",
        kTokenizerKey, model);
  const auto name = gguf_value(file, kTokenizerKey + "pre", std::string("default"));
  const auto pre = std::find_if(pre_tokenizers().begin(), pre_tokenizers().end(),
                                [&](const KnownPreTokenizer& known) { return known.name == name; });
  check(pre != pre_tokenizers().end(), "{}pre '{}' is not supported, only {}", kTokenizerKey, name,
        names_of_pre_tokenizers(&KnownPreTokenizer::name));
  check(!gguf_value(file, kTokenizerKey + "add_eos_token", false),
        "{}add_eos_token is not supported", kTokenizerKey);
  const bool has_end_row = gguf_value(file, kMeanEndRow, false);
  Vocabulary v = vocabulary_of(file, rows + (has_end_row ? 1 : 0));
  if (has_end_row) {
    v.end.reset();
    v.tokens = v.tokens.first(v.tokens.size() - 1);
    v.types.pop_back();
    if (const auto characters = characters_of(v)) {
      return data::Tokenizer::of_characters(*characters).padded(rows);
    }
  }
  v.pre = &*pre;
  v.nfc = gguf_value(file, kNfc, pre->nfc);
  v.begins = gguf_value(file, kTokenizerKey + "add_bos_token", pre->begins);
  const std::optional<std::int64_t> end = v.end;
  data::HfFile tables = hf_file_of(v);
  const auto tokenizer = data::Tokenizer::of_hf(tables, [owner, v = std::move(v)] {
                           return tokenizer_json_of(v);
                         }).padded(rows);
  return end ? tokenizer.ending_at({&*end, 1}) : tokenizer;
}

// A tokenizer.json without the added tokens of its vocabulary, which files of earlier versions
// lack.
json without_added(const std::string& text) {
  json file = parse_json<json>(text, 16);
  const auto model = file.find("model");
  if (model == file.end() || !model->is_object() || !model->contains("vocab")) return file;
  json& vocab = (*model)["vocab"];
  for (const json& added : member(file, "added_tokens")) {
    if (vocab.is_object()) vocab.erase(added.at("content").get<std::string>());
  }
  return file;
}

}  // namespace

data::Tokenizer gguf_tokenizer(const std::shared_ptr<const GgufFile>& file, std::int64_t rows) {
  try {
    return read_tokenizer(file, rows);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with(file->name())) throw;
    fail("{}: the tokenizer: {}", file->name(), what);
  }
}

bool is_gguf_tokenizer(const std::shared_ptr<const GgufFile>& file,
                       const data::Tokenizer& tokenizer) {
  try {
    const data::Tokenizer own = gguf_tokenizer(file, tokenizer.vocab_size());
    if (own.kind() != tokenizer.kind() || own.ends() != tokenizer.ends()) return false;
    const std::string text = own.hf_json(), other = tokenizer.hf_json();
    return text == other || without_added(text) == without_added(other);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tapegrad::run
