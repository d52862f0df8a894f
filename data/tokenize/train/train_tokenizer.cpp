#include "tapegrad/data/tokenize/train/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/internal/merge_trainer.h"
#include "tapegrad/data/tokenize/hf/internal/hf_export.h"
#include "tapegrad/data/tokenize/hf/internal/hf_file.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/merges_of_scores.h"
#include "tapegrad/data/tokenize/train/internal/unigram_train.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

constexpr const char* kSpecial[] = {"<unk>", "<s>", "</s>"};
constexpr std::size_t kFirstTokens = std::size(kSpecial) + 256;
// SentencePiece's default share of a text that the vocabulary has characters for.
constexpr double kCoverage = 0.9995;
constexpr std::size_t kMostBytesOfToken = 64;
// Words of a text without spaces are cut here.
constexpr std::size_t kMostBytesOfWord = 256;
// The characters of "<0x0A>". See byte_score().
constexpr std::string_view kByteCharacters = "<0x123456789ABCDEF>";

// A word with the space before it.
std::size_t first_spaced_word(std::string_view text) {
  std::size_t end = std::min(text.find(' ', 1), text.size());
  if (end <= kMostBytesOfWord) return end;
  end = kMostBytesOfWord;
  while (end > kMostBytesOfWord - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return end;
}

std::vector<std::string> first_tokens() {
  std::vector<std::string> tokens(std::begin(kSpecial), std::end(kSpecial));
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  return tokens;
}

json added_tokens() {
  json added = json::array();
  for (std::size_t id = 0; id < std::size(kSpecial); ++id) {
    added.push_back({{"id", id},
                     {"content", kSpecial[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

json replace_step(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// All but the model. Spaces become marks, with one more before a text; there and back.
json file_of(json pre_tokenizer) {
  const json normalizers = {{{"type", "Prepend"}, {"prepend", kSpaceMark}},
                            replace_step(" ", kSpaceMark)};
  const json steps = {replace_step(kSpaceMark, " "),
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens()},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", steps}}}};
}

void check_size(std::int64_t vocab_size) {
  check(vocab_size > static_cast<std::int64_t>(kFirstTokens) && vocab_size <= Bpe::kMaxSize,
        "[tokenizer] a vocabulary of {} tokens is out of range: {} special ones and bytes stand "
        "before the others, and {} are the most",
        vocab_size, kFirstTokens, Bpe::kMaxSize);
}

void check_characters(std::size_t characters, std::int64_t vocab_size) {
  check(kFirstTokens + characters <= static_cast<std::size_t>(vocab_size),
        "[tokenizer] a vocabulary of {} tokens is too small for the {} characters of the corpus, "
        "and {} special tokens and bytes; choose {} or more",
        vocab_size, characters, kFirstTokens, kFirstTokens + characters);
}

// The tokens of Llama 2's form, in the order in which they merge: characters last.
struct LearntPairs {
  std::vector<std::string> merged, characters;
};

LearntPairs learn_pairs(const PieceCounts& counts, std::int64_t vocab_size,
                        const std::function<void(std::int64_t)>& on_tokens) {
  const CountedWords words = marked_words(counts);
  check(!words.empty(), "[tokenizer] the corpus has no words");
  LearntPairs learnt;
  learnt.characters = frequent_characters(words, kCoverage, kSpaceMark);
  check_characters(learnt.characters.size(), vocab_size);
  std::vector<std::string> texts = learnt.characters;  // of each token of the trainer
  std::unordered_map<std::string, Token> token_of;
  std::vector<std::size_t> sizes;
  for (const std::string& text : texts) {
    token_of.emplace(text, static_cast<Token>(token_of.size()));
    sizes.push_back(text.size());
  }
  MergeTrainer trainer(std::move(sizes), kMostBytesOfToken);
  for (const auto& [word, count] : words_of_characters(words, learnt.characters)) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = first_char(std::string_view(word).substr(at)).size;
      trainer.append(token_of.at(word.substr(at, size)), at == 0, count);
      at += size;
    }
  }
  trainer.count();
  for (const std::string& token : first_tokens()) token_of.emplace(token, -1);
  const auto tokens = [&] { return static_cast<std::int64_t>(kFirstTokens + texts.size()); };
  while (tokens() < vocab_size) {
    const std::optional<Merge> best = trainer.take_best();
    check(best.has_value(),
          "[tokenizer] the corpus of {} bytes is too short for {} tokens: after {} no pair of "
          "neighbours occurs twice any more; choose {} or less",
          counts.text_bytes(), vocab_size, tokens(), tokens());
    std::string text = texts[static_cast<std::size_t>(best->first)] +
                       texts[static_cast<std::size_t>(best->second)];
    // Any two tokens merge that are written as a third.
    if (const auto found = token_of.find(text); found != token_of.end()) {
      if (found->second >= 0) trainer.merge_into(*best, found->second);
      continue;
    }
    token_of.emplace(text, trainer.merge(*best));
    learnt.merged.push_back(text);
    texts.push_back(std::move(text));
    if (on_tokens) on_tokens(tokens());
  }
  return learnt;
}

std::string train_byte_fallback(const PieceCounts& counts, std::int64_t vocab_size,
                                const std::function<void(std::int64_t)>& on_tokens) {
  check_size(vocab_size);
  const LearntPairs learnt = learn_pairs(counts, vocab_size, on_tokens);
  json rest = file_of(nullptr);
  rest["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", kSpecial[0]},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"ignore_merges", false},
                   {"vocab", json::object()},
                   {"merges", json::array()}};
  HfFile file(std::move(rest), static_cast<std::size_t>(vocab_size));
  std::vector<std::optional<double>> scores;
  const auto add = [&](const std::string& text, std::optional<double> score) {
    file.add_token(text, json(static_cast<std::uint64_t>(scores.size())));
    scores.push_back(score);
  };
  for (const std::string& token : first_tokens()) add(token, std::nullopt);
  double score = 0;
  for (const auto* const list : {&learnt.merged, &learnt.characters}) {
    for (const std::string& text : *list) add(text, --score);
  }
  add_merges_of_scores(file, scores);
  return file.json_text() + "\n";
}

// So low that the text "<0x0A>" is written with its characters, which are all in the vocabulary.
double byte_score(std::span<const ScoredPiece> pieces) {
  double least = 0;
  for (const ScoredPiece& piece : pieces) least = std::min(least, piece.score);
  return std::floor(6 * least) - 1;
}

std::string train_unigram_file(const PieceCounts& counts, std::int64_t vocab_size,
                               const std::function<void(std::int64_t)>& on_tokens) {
  check_size(vocab_size);
  CountedWords words = marked_words(counts);
  check(!words.empty(), "[tokenizer] the corpus has no words");
  const std::vector<std::string> characters =
      frequent_characters(words, kCoverage, std::string(kSpaceMark).append(kByteCharacters));
  check_characters(characters.size(), vocab_size);
  words = words_of_characters(words, characters);
  const std::vector<std::string> first = first_tokens();
  auto pieces = train_unigram(words, characters, {first.begin(), first.end()},
                              static_cast<std::size_t>(vocab_size) - kFirstTokens, kFirstTokens,
                              [&](std::size_t left) {
                                if (on_tokens) on_tokens(static_cast<std::int64_t>(left));
                              });
  // Readers of JSON agree on numbers of so few digits to the last bit.
  for (ScoredPiece& piece : pieces) piece.score = std::round(piece.score * 1e6) / 1e6;
  json rest = file_of({{"type", "Metaspace"},
                       {"replacement", kSpaceMark},
                       {"prepend_scheme", "never"},
                       {"split", true}});
  rest["model"] = {
      {"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", json::array()}};
  HfFile file(std::move(rest), static_cast<std::size_t>(vocab_size));
  std::uint64_t id = 0;
  const double low = byte_score(pieces);
  for (const std::string& token : first) file.add_token(token, json(id++), low);
  for (const ScoredPiece& piece : pieces) file.add_token(piece.text, json(id++), piece.score);
  return file.json_text() + "\n";
}

}  // namespace

PieceCounts counts_for(TrainedKind kind) {
  return kind == TrainedKind::unigram ? PieceCounts({}, first_spaced_word) : PieceCounts();
}

std::size_t last_counted_cut(TrainedKind kind, std::string_view text) {
  if (kind != TrainedKind::unigram) return last_border(text);
  const std::size_t space = text.rfind(' ');
  return space == text.npos ? 0 : space;
}

void count_words(TrainedKind kind, std::string_view text, bool first, PieceCounts& counts) {
  if (kind == TrainedKind::bpe || !first) return add_words(text, counts);
  add_words(std::string(" ").append(text), counts);  // as before a text
}

std::string train_tokenizer(TrainedKind kind, const PieceCounts& counts, std::int64_t vocab_size,
                            const std::function<void(std::int64_t)>& on_tokens) {
  if (kind == TrainedKind::byte_fallback) return train_byte_fallback(counts, vocab_size, on_tokens);
  if (kind == TrainedKind::unigram) return train_unigram_file(counts, vocab_size, on_tokens);
  return hf_json_of(Bpe(train_merges(counts, vocab_size, on_tokens, Twins::left_out)));
}

}  // namespace tapegrad::data
