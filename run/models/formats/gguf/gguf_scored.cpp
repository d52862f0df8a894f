#include "tapegrad/run/models/formats/gguf/gguf_scored.h"

#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/hf/hf_file.h"
#include "tapegrad/data/tokenize/hf/merges_of_scores.h"
#include "tapegrad/run/models/formats/gguf/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

using nlohmann::json;

struct ScoredVocabulary {
  std::span<const std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  bool begins = false;  // texts begin with the token `begin`
  bool adds_space = true;
  std::optional<std::int64_t> begin, end, unknown;
};

ScoredVocabulary scored_vocabulary_of(const nn::GgufFile& file, std::int64_t rows) {
  ScoredVocabulary v;
  const auto* const tokens =
      find_gguf_value<std::vector<std::string>>(file, kTokenizerKey + "tokens");
  check(tokens != nullptr, "there is no {}tokens", kTokenizerKey);
  v.tokens = *tokens;
  v.types = gguf_value(file, kTokenizerKey + "token_type", v.types);
  v.scores = gguf_value(file, kTokenizerKey + "scores", v.scores);
  const bool fits = v.types.size() == v.tokens.size() && v.scores.size() == v.tokens.size();
  check(fits, "{0}token_type has {1} elements and {0}scores {2} for {3} tokens", kTokenizerKey,
        v.types.size(), v.scores.size(), v.tokens.size());
  check(std::ssize(v.tokens) == rows, "{} tokens for {} rows of token_embd.weight", v.tokens.size(),
        rows);
  const auto id_of = [&](const char* key, std::int64_t absent) -> std::optional<std::int64_t> {
    const auto id = gguf_value(file, kTokenizerKey + key, absent);
    check(id < std::ssize(v.tokens), "{}{} {} is no token", kTokenizerKey, key, id);
    return id < 0 ? std::nullopt : std::optional(id);
  };
  // llama.cpp's defaults where a file does not say.
  v.begin = id_of("bos_token_id", 1);
  v.end = id_of("eos_token_id", 2);
  v.unknown = id_of("unknown_token_id", 0);
  v.begins = gguf_value(file, kTokenizerKey + "add_bos_token", true);
  v.adds_space = gguf_value(file, kTokenizerKey + "add_space_prefix", true);
  check(!gguf_value(file, kTokenizerKey + "add_eos_token", false),
        "{}add_eos_token is not supported", kTokenizerKey);
  return v;
}

bool is_control(const ScoredVocabulary& v, std::size_t i) {
  return v.types[i] == kControlToken || v.types[i] == kUnknownToken;
}

json rest_of(const ScoredVocabulary& v) {
  json added = json::array();
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (!is_control(v, i) && v.types[i] != kUserDefinedToken) continue;
    json token = {{"id", i}, {"content", v.tokens[i]}, {"special", is_control(v, i)}};
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
      token[name] = false;  // Hugging Face's reader wants them all
    }
    added.push_back(std::move(token));
  }
  const json space = {{"String", " "}}, mark = {{"String", "▁"}};
  json normalizers = json::array(), decoders = json::array();
  if (v.adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", space}, {"content", "▁"}});
  decoders.push_back({{"type", "Replace"}, {"pattern", mark}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (v.adds_space) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  json model = {{"type", "BPE"},          {"fuse_unk", true},        {"byte_fallback", true},
                {"ignore_merges", false}, {"vocab", json::object()}, {"merges", json::array()}};
  if (v.unknown) model["unk_token"] = v.tokens[static_cast<std::size_t>(*v.unknown)];
  json file = {{"version", "1.0"},
               {"added_tokens", std::move(added)},
               {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
               {"pre_tokenizer", nullptr},
               {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
               {"model", std::move(model)}};
  if (v.begins) file["post_processor"] = post_processor_of(v.tokens, v.begin);
  return file;
}

data::HfFile hf_file_of(const ScoredVocabulary& v) {
  data::HfFile file(rest_of(v), v.tokens.size());
  std::vector<std::optional<double>> scores;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.types[i] == kUnusedToken) continue;
    check_text_of_json(v.tokens[i]);
    check(v.types[i] >= kNormalToken && v.types[i] <= kByteToken,
          "the token '{}' is of type {}, which is not known", v.tokens[i], v.types[i]);
    check(std::isfinite(v.scores[i]), "the score of '{}' is not finite", v.tokens[i]);
    file.add_token(v.tokens[i], i);
    const bool merges = v.types[i] == kNormalToken || v.types[i] == kUserDefinedToken;
    scores.push_back(merges ? std::optional(v.scores[i]) : std::nullopt);
    bytes += v.types[i] == kByteToken ? 1 : 0;
  }
  check(bytes == 256, "{} of 256 tokens are bytes, without which a text cannot be encoded", bytes);
  add_merges_of_scores(file, scores);
  return file;
}

}  // namespace

data::Tokenizer read_scored_tokenizer(const std::shared_ptr<const nn::GgufFile>& file,
                                      std::int64_t rows) {
  const bool has_end_row = gguf_value(*file, kMeanEndRow, false);
  ScoredVocabulary v = scored_vocabulary_of(*file, rows + (has_end_row ? 1 : 0));
  if (has_end_row) {
    v.end.reset();
    if (v.unknown && *v.unknown + 1 == std::ssize(v.tokens)) v.unknown.reset();
    v.tokens = v.tokens.first(v.tokens.size() - 1);
    v.types.pop_back();
    v.scores.pop_back();
  }
  const std::optional<std::int64_t> end = v.end;
  const data::HfFile tables = hf_file_of(v);
  const auto tokenizer = data::Tokenizer::of_hf(tables, [file, v = std::move(v)] {
                           return hf_file_of(v).json_text();
                         }).padded(rows);
  return end ? tokenizer.ending_at({&*end, 1}) : tokenizer;
}

void check_text_of_json(const std::string& text) {
  check(!find_invalid_utf8(text), "a text is not in UTF-8");
  check(text.find('\0') == std::string::npos, "a text has a NUL in it");
}

json post_processor_of(std::span<const std::string> tokens, std::optional<std::int64_t> begin) {
  const bool is_token = begin && *begin >= 0 && *begin < std::ssize(tokens);
  check(is_token, "texts begin with a token, which {}bos_token_id does not name", kTokenizerKey);
  const std::string& text = tokens[static_cast<std::size_t>(*begin)];
  const json special = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"type", "TemplateProcessing"},
          {"single", {special, sequence}},
          {"pair", {sequence, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
          {"special_tokens", {{text, {{"id", text}, {"ids", {*begin}}, {"tokens", {text}}}}}}};
}

}  // namespace tapegrad::run
