#include "tapegrad/run/models/formats/gguf/internal/gguf_scored.h"

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

struct ScoredVocabulary {
  std::span<const std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  bool begins = false;  // texts begin with the token `begin`
  bool adds_space = true;
  std::optional<std::int64_t> begin, end, unknown;
};

ScoredVocabulary scored_vocabulary_of(const GgufFile& file, std::int64_t rows) {
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

data::HfFile hf_file_of(const ScoredVocabulary& v) {
  data::ScoredPieces pieces{v.tokens, v.types, v.scores};
  pieces.adds_space = v.adds_space;
  pieces.unknown = v.unknown;
  if (v.begins) pieces.post_processor = data::post_processor_of(v.tokens, v.begin);
  return data::hf_file_of(pieces);
}

}  // namespace

data::Tokenizer read_scored_tokenizer(const std::shared_ptr<const GgufFile>& file,
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

}  // namespace tapegrad::run
