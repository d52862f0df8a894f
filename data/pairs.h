#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// A source text and its target, such as a sentence and its translation. Both are views of the text
// that parse_pairs read.
struct Pair {
  std::string_view source, target;
  std::int64_t line = 0;  // counted from 1
};

// Reads lines of the form source, tab, target. Neither side may be empty. Empty lines are skipped,
// and a line may end with CR LF. Any other line is an Error that says `name`, which is the name of
// the text, and the line's number. A text without any pair is an Error, too.
std::vector<Pair> parse_pairs(std::string_view text, std::string_view name);

struct PairSplit {
  std::vector<Pair> train, held_out;
};
// Holds out `count` pairs, chosen at random with a fixed seed, so that every call chooses the same
// ones. Pairs with a held-out source are removed from the training pairs, so that no model has seen
// a held-out source. Error if no training pair is left.
PairSplit hold_out(const std::vector<Pair>& pairs, std::int64_t count);

// Three tokens that a model needs and a tokenizer does not have. Their ids follow the tokenizer's
// `vocab_size` ids.
struct SpecialTokens {
  Token padding, start, end;
  static constexpr std::int64_t kCount = 3;
  explicit SpecialTokens(std::int64_t vocab_size)
      : padding(static_cast<Token>(vocab_size)), start(padding + 1), end(padding + 2) {}
};

struct TokenPair {
  std::vector<Token> source, target;
};
// Encodes both sides of each pair. Errors, with `name` and the line's number: the source has more
// than `block_size` tokens; the target has more than block_size − 1, since its end takes one more;
// the tokenizer cannot encode one of the texts.
std::vector<TokenPair> encode_pairs(std::span<const Pair> pairs, const Tokenizer& tokenizer,
                                    std::int64_t block_size, std::string_view name);

// B pairs as matrices: S is the length of the longest source, T the longest target's plus one
// for its start or end.
struct PairBatch {
  std::int64_t B = 0, S = 0, T = 0;
  std::vector<Token> sources;  // (B, S), padded at the end
  std::vector<Token> inputs;   // (B, T): the start, the target, then padding
  std::vector<Token> labels;   // (B, T): the target, the end, then kIgnoredLabel
};
inline constexpr Token kIgnoredLabel = -1;
PairBatch make_batch(std::span<const TokenPair* const> rows, const SpecialTokens& special);
// Makes a batch of pairs that are adjacent in memory.
PairBatch make_batch(std::span<const TokenPair> pairs, const SpecialTokens& special);

// Endless batches of pairs of similar lengths, so that little of a batch is padding. The pairs are
// sorted by length. A batch is batch_size neighbours from a random start; after the longest pair
// comes the shortest again. The loader keeps a view of `pairs`: they must live as long as it does.
// Error if `pairs` is empty.
class PairLoader {
 public:
  PairLoader(std::span<const TokenPair> pairs, std::int64_t batch_size, SpecialTokens special,
             Rng rng);

  PairBatch next();

  // The generator that the loader draws from, for callers that share its stream.
  Rng& rng() { return rng_; }

  // Everything that decides the next batches. set_state throws Error for a text that state()
  // cannot have written, and then changes nothing.
  std::string state() const { return rng_.state(); }
  void set_state(std::string_view state) { rng_.set_state(state); }

 private:
  std::vector<const TokenPair*> by_length_;
  std::int64_t batch_size_;
  SpecialTokens special_;
  Rng rng_;
};

}  // namespace tapegrad::data
