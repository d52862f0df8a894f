#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/tokens.h"

namespace tapegrad::data {

// The most tokens of a batch.
inline constexpr std::int64_t kMaxBatchTokens = std::int64_t{1} << 30;

// B rows of T tokens, stored row after row. The target of a token is the token that follows it.
struct Batch {
  std::int64_t B = 0;
  std::int64_t T = 0;
  std::vector<Token> inputs;   // (B, T)
  std::vector<Token> targets;  // (B, T)
  // (B, T): the place in its row at which the document of each token begins, 0 if that is before
  // the row. Documents in a row do not see each other. Empty: each row is one document, which is
  // what loaders make unless TokenSource::isolated() says what ends one.
  std::vector<std::int32_t> document_starts = {};
};

// Endless batches of random windows, drawn as nanoGPT's get_batch draws them: for each row in turn,
// a start in [0, tokens − block_size). Of a mixture, a part is drawn first, as often as its weight
// times its starts say.
class Loader {
 public:
  // `split` is the tokens' name in error messages, such as "training". Error if there are fewer
  // than block_size + 1 tokens.
  Loader(TokenSource tokens, std::int64_t batch_size, std::int64_t block_size, Rng rng,
         std::string_view split = "training");

  Batch next();
  // Takes the next batch without reading it.
  void skip();

  // The generator that the loader draws from, for callers that share its stream.
  Rng& rng() { return rng_; }

  // Everything that decides the next batches. set_state throws Error for a text that state()
  // cannot have written, and then changes nothing.
  std::string state() const { return rng_.state(); }
  void set_state(std::string_view state) { rng_.set_state(state); }

 private:
  std::int64_t draw_start();

  TokenSource tokens_;
  std::int64_t batch_size_, block_size_;
  Rng rng_;
  std::vector<double> shares_;  // of a mixture: of each part and those before it
};

// Endless batches that visit all tokens, epoch after epoch, in windows of block_size tokens that
// begin `stride` tokens apart. The batches equal PyTorch's DataLoader's over the same windows
// without worker processes. Like that DataLoader, each epoch draws a 64-bit number that only worker
// processes would use; an epoch that shuffles then draws the seed of its permutation. Of a mixture,
// an epoch has each part's windows as often as its weight says, drawn from that seed, too.
class EpochLoader {
 public:
  struct Options {
    std::int64_t batch_size, block_size, stride;
    bool shuffle = true;
    bool drop_last = true;  // leave out the last batch of an epoch if it is not full
  };
  // Error if the tokens do not fill one batch.
  EpochLoader(TokenSource tokens, const Options& options, Rng rng,
              std::string_view split = "training");

  Batch next();
  void skip();  // as in Loader
  std::int64_t batches_per_epoch() const;
  // True if one of the last `batches` batches completed an epoch. `batches` must not exceed the
  // number of batches since the state was set: earlier ones may have had another batch_size.
  bool ended_epoch(std::int64_t batches) const;

  // As in Loader. A state also holds the position in the epoch, counted in windows, so that a
  // loader with another batch_size continues at the same position.
  Rng& rng() { return rng_; }
  std::string state() const;
  void set_state(std::string_view state);

 private:
  std::int64_t begin_batch();  // returns its rows
  void begin_epoch(std::uint64_t seed);
  bool at_end() const;           // no further batch in this epoch
  std::int64_t windows() const;  // of an epoch
  std::int64_t start_of(std::int64_t window) const;

  TokenSource tokens_;
  Options options_;
  // Parts of a mixture, or all tokens, and how many windows each has.
  std::vector<WeightedTokens> parts_;
  std::vector<std::int64_t> part_windows_;
  Rng rng_;
  std::uint64_t seed_ = 0;  // of this epoch's permutation
  std::int64_t next_ = 0;   // position of the next window in this epoch
  bool begun_ = false;      // the first epoch has begun
  // The windows of an epoch that shuffles, or of a mixture, counted through all parts.
  std::vector<std::int64_t> order_;
};

// The target of a position that does not count; nn::GPT::loss leaves it out.
inline constexpr Token kIgnoredTarget = -100;

// Batches that walk once through all tokens, so that each counts as a target at most once.
//   Without a stride, or with one of block_size: windows of block_size tokens side by side.
//   With a stride S < block_size: windows of block_size tokens, of which the last has no target,
//   begin S tokens apart, and a target counts in the first window that has it. So each is predicted
//   from at least block_size − S tokens before it, as in the recipe of Hugging Face's transformers
//   for the perplexity of models with a fixed length ("Perplexity of fixed-length models"). With
//   S = block_size, the recipe leaves out the first token of each window.
// Every token but the first is a target exactly once.
// A batch has up to `batch_size` rows. Tokens that do not fill a window come last, as a batch of
// one shorter row.
class SequentialBatches {
 public:
  // Error if there are fewer than two tokens (a single one has no target), or a stride is not from
  // 1 to block_size.
  SequentialBatches(TokenSource tokens, std::int64_t batch_size, std::int64_t block_size,
                    std::optional<std::int64_t> stride = {}, std::string_view split = "validation");

  std::int64_t size() const;  // the number of batches, at least 1
  Batch operator[](std::int64_t i) const;

 private:
  TokenSource tokens_;
  std::int64_t batch_size_, length_, step_;  // inputs of a full window, and from one to the next
  std::int64_t full_, rest_;                 // full windows, and the inputs of the one behind them
};

}  // namespace tapegrad::data
