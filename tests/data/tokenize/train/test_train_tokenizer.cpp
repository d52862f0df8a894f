// Tokenizers that are learnt into a tokenizer.json.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/data/tokenize/train/internal/piece_lattice.h"
#include "tapegrad/data/tokenize/train/internal/unigram_seeds.h"
#include "tapegrad/data/tokenize/train/internal/unigram_train.h"
#include "tapegrad/data/tokenize/train/train_tokenizer.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

constexpr TrainedKind kAllKinds[] = {TrainedKind::bpe, TrainedKind::byte_fallback,
                                     TrainedKind::unigram};

// Words in an order without a pattern.
std::string some_english() {
  const std::string words[] = {"the",    "quick", "brown", "foxes", "jumped", "over",
                               "lazy",   "dogs",  "and",   "never", "asked",  "whether",
                               "those",  "slept", "under", "trees", "with",   "green",
                               "leaves", "while", "rain",  "fell",  "upon",   "hills"};
  std::string text;
  std::uint32_t at = 1;
  for (std::size_t i = 0; i < 3000; ++i) {
    at = at * 1103515245 + 12345;
    text += words[(at >> 16) % 24] + (i % 9 == 8 ? ".\n" : " ");
    if (i % 50 == 0) text += '\0';
  }
  return text;
}

std::string learnt_file(TrainedKind kind, std::string_view text, std::int64_t vocab_size) {
  PieceCounts counts = counts_for(kind);
  count_words(kind, text, true, counts);
  return train_tokenizer(kind, counts, vocab_size);
}

}  // namespace

TEST_CASE("a learnt tokenizer has the size that was asked for, and gives texts back",
          "[tokenizer][train]") {
  for (const TrainedKind kind : kAllKinds) {
    const Tokenizer t = Tokenizer::of_hf(learnt_file(kind, some_english(), 340));
    CHECK(t.vocab_size() == 340);
    CHECK(t.end_of_text().has_value());
    // Characters that the corpus lacks are bytes; a byte's name in a text is text.
    const std::string texts[] = {some_english(),
                                 "a dog",
                                 "  two  spaces \n\n\ttab",
                                 "世界 🙂 ü",
                                 "<0x0A> <0x41>",
                                 std::string("\0\x01\x1b\r\n", 5),
                                 "x"};
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(decode_text(t, t.encode(text)) == text);
    }
    CHECK(4 * t.encode(some_english()).size() < 3 * some_english().size());
  }
}

TEST_CASE("the same corpus gives the same file, whatever the threads", "[tokenizer][train]") {
  const int before = num_threads();
  for (const TrainedKind kind : kAllKinds) {
    set_num_threads(1);
    const std::string one = learnt_file(kind, some_english(), 330);
    set_num_threads(3);
    CHECK(learnt_file(kind, some_english(), 330) == one);
  }
  set_num_threads(before);
}

TEST_CASE("a learnt tokenizer.json has no token twice", "[tokenizer][train]") {
  // "aab" and "abb" can each be made in two ways.
  std::string text;
  std::uint32_t at = 1;
  for (int i = 0; i < 4000; ++i) {
    at = at * 1103515245 + 12345;
    text += "ab ab"[(at >> 16) % 5];
  }
  for (const TrainedKind kind : kAllKinds) {
    const Tokenizer t =
        Tokenizer::of_hf(learnt_file(kind, text, kind == TrainedKind::bpe ? 270 : 285));
    std::set<std::string> bytes;
    for (Token token = kind == TrainedKind::bpe ? 0 : 259; token < t.vocab_size(); ++token) {
      CHECK(bytes.insert(t.token_bytes(token)).second);
    }
  }
}

TEST_CASE("a corpus that is too short, and a vocabulary that is too small, are refused",
          "[tokenizer][train]") {
  CHECK_THROWS_WITH(learnt_file(TrainedKind::bpe, "abc abc", 400),
                    ContainsSubstring("too short for bpe:400"));
  CHECK_THROWS_WITH(
      learnt_file(TrainedKind::byte_fallback, "abc abc", 400),
      ContainsSubstring("the corpus of 8 bytes is too short for 400 tokens: after 266"));
  CHECK_THROWS_WITH(learnt_file(TrainedKind::unigram, "abc abc", 400),
                    ContainsSubstring("too short for a Unigram vocabulary of 400 tokens"));
  CHECK_THROWS_WITH(learnt_file(TrainedKind::byte_fallback, "abcdefgh abcdefgh", 262),
                    ContainsSubstring("too small for the 9 characters") &&
                        ContainsSubstring("choose 268 or more"));
  CHECK_THROWS_WITH(train_tokenizer(TrainedKind::unigram, PieceCounts(), 300),
                    ContainsSubstring("has no words"));
  CHECK_THROWS_WITH(learnt_file(TrainedKind::unigram, "abc", 259),
                    ContainsSubstring("out of range"));
}

TEST_CASE("substrings are found with their counts", "[tokenizer][train]") {
  const CountedWords words = {{"banana", 2}, {"bandana", 1}, {"世界世界", 3}};
  std::map<std::string, std::int64_t> found;
  for (const SeedPiece& seed : frequent_substrings(words, 100)) found[seed.text] = seed.count;
  // Against all substrings, counted one by one.
  std::map<std::string, std::int64_t> all;
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  for (const auto& [word, count] : words) {
    for (std::size_t i = 0; i < word.size(); ++i) {
      for (std::size_t j = i + 1; j <= word.size(); ++j) {
        if (is_inside(word[i]) || (j < word.size() && is_inside(word[j]))) continue;
        all[word.substr(i, j - i)] += count;
      }
    }
  }
  for (const auto& [text, count] : found) CHECK(all.at(text) == count);
  CHECK(found.at("ana") == 5);
  CHECK(found.at("世界") == 6);
  CHECK(found.at("ban") == 3);
  CHECK(found.count("ba") == 0);       // is always "ban"
  CHECK(found.count("bandana") == 0);  // occurs once
}

TEST_CASE("a lattice's expected counts are those of all ways", "[tokenizer][train]") {
  // "aab": a a b, aa b, a ab.
  const std::vector<ScoredPiece> pieces = {
      {"a", std::log(0.3)}, {"b", std::log(0.2)}, {"aa", std::log(0.1)}, {"ab", std::log(0.4)}};
  TextTree tree;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tree.add(pieces[i].text, static_cast<std::int32_t>(i));
  }
  PieceLattice lattice(tree, pieces);
  lattice.set_word("aab");
  std::vector<double> expected(4);
  const double ways[] = {0.3 * 0.3 * 0.2, 0.1 * 0.2, 0.3 * 0.4};
  const double sum = ways[0] + ways[1] + ways[2];
  CHECK(std::abs(lattice.add_expected(2, expected) - std::log(sum)) < 1e-12);
  CHECK(std::abs(expected[0] - 2 * (2 * ways[0] + ways[2]) / sum) < 1e-12);
  CHECK(std::abs(expected[1] - 2 * (ways[0] + ways[1]) / sum) < 1e-12);
  CHECK(std::abs(expected[2] - 2 * ways[1] / sum) < 1e-12);
  CHECK(std::abs(expected[3] - 2 * ways[2] / sum) < 1e-12);
  CHECK(lattice.best() == std::vector<std::int32_t>{3, 0});
  lattice.set_word("ab");
  CHECK(lattice.best() == std::vector<std::int32_t>{3});
  CHECK(lattice.best(3) == std::vector<std::int32_t>{1, 0});
}

TEST_CASE("pieces of a Unigram model are words that occur often", "[tokenizer][train]") {
  const Tokenizer t = Tokenizer::of_hf(learnt_file(TrainedKind::unigram, some_english(), 360));
  CHECK(t.encode("the quick brown foxes").size() == 4);
  CHECK(t.token_bytes(t.encode("the quick")[1]) == " quick");
}
