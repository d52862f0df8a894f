#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/base/random.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// A text and what it is to be turned into; parts of the text that they were found in.
struct Pair {
  std::string_view source, target;
  int64_t line = 0;  // counted from 1
};

// Lines of source, one tab, and target, neither of them empty. Lines with nothing in them are
// passed over, and a line may end with CR LF. Any other line is an Error that names `name` and its
// number; so is a text without a pair.
std::vector<Pair> parse_pairs(std::string_view text, std::string_view name);

struct PairSplit {
  std::vector<Pair> train, held_out;
};
// Holds out `count` pairs, the same for each call, and drops from the others those whose source is
// among them: what is held out has never been seen. Error if that leaves nothing to train on.
PairSplit hold_out(const std::vector<Pair>& pairs, int64_t count);

// Three tokens of a model's vocabulary that no tokenizer has: they come behind its own.
struct SpecialTokens {
  Token padding, start, end;
  static constexpr int64_t count = 3;
  explicit SpecialTokens(int64_t vocab_size)
      : padding(static_cast<Token>(vocab_size)), start(padding + 1), end(padding + 2) {}
};

struct TokenPair {
  std::vector<Token> source, target;
};
// Error, naming the line and both lengths, if the source, or the target and the token that ends it,
// has more than `block_size` tokens; or if the tokenizer cannot encode one of them.
std::vector<TokenPair> encode_pairs(std::span<const Pair> pairs, const Tokenizer& tokenizer,
                                    int64_t block_size, std::string_view name);

// B pairs side by side, of S and T tokens where the longest have that many.
struct PairBatch {
  int64_t B = 0, S = 0, T = 0;
  std::vector<Token> sources;  // (B, S), padded at the end
  std::vector<Token> inputs;   // (B, T): the start, the target; padded
  std::vector<Token> labels;   // (B, T): the target, the end; then ignored_label
};
inline constexpr Token ignored_label = -1;
PairBatch make_batch(std::span<const TokenPair* const> rows, const SpecialTokens& special);
// The same of pairs that lie one behind the other.
PairBatch make_batch(std::span<const TokenPair> pairs, const SpecialTokens& special);

// Endless batches of pairs of about the same length, so that little of a batch is padding: each is
// a stretch of the pairs in the order of their lengths that begins at a pair drawn with randint,
// and goes on at the shortest if it comes to the longest. `pairs` must outlive it and not be empty.
class PairLoader {
 public:
  PairLoader(std::span<const TokenPair> pairs, int64_t batch_size, SpecialTokens special, Rng rng);

  PairBatch next();

  // What it draws from: for others that are to draw from the same stream.
  Rng& rng() { return rng_; }

  // Everything that decides the batches to come. A state that state() cannot have written is an
  // Error and changes nothing.
  std::string state() const { return rng_.state(); }
  void set_state(std::string_view state) { rng_.set_state(state); }

 private:
  std::vector<const TokenPair*> by_length_;
  int64_t batch_size_;
  SpecialTokens special_;
  Rng rng_;
};

}  // namespace tapegrad::data
