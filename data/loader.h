#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/base/random.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// B rows of T tokens, row after row; the target of each token is the one that follows it.
struct Batch {
  int64_t B = 0;
  int64_t T = 0;
  std::vector<Token> inputs;   // (B, T)
  std::vector<Token> targets;  // (B, T)
};

// Endless batches of random windows, drawn as nanoGPT's get_batch draws them: for each row in turn,
// a start in [0, tokens − block_size).
class Loader {
 public:
  // `tokens` must outlive the loader. `split` names them in messages, such as "training". Fewer
  // than block_size + 1 tokens are an Error.
  Loader(std::span<const Token> tokens, int64_t batch_size, int64_t block_size, Rng rng,
         std::string_view split = "training");

  Batch next();

  // What it draws from: for others that are to draw from the same stream.
  Rng& rng() { return rng_; }

  // Everything that decides the batches to come. A state that state() cannot have written is an
  // Error and changes nothing.
  std::string state() const { return rng_.state(); }
  void set_state(std::string_view state) { rng_.set_state(state); }

 private:
  std::span<const Token> tokens_;
  int64_t batch_size_, block_size_;
  Rng rng_;
};

// Endless batches that go through all tokens, pass after pass, in windows of block_size tokens that
// begin `stride` tokens apart: what PyTorch's DataLoader makes of such windows without worker
// processes, draw by draw. A pass draws a 64-bit number, which only workers would need, and if it
// shuffles another one, which seeds the permutation.
class EpochLoader {
 public:
  struct Options {
    int64_t batch_size, block_size, stride;
    bool shuffle = true;
    bool drop_last = true;  // leave out the last batch of a pass if it is not full
  };
  // `tokens` must outlive the loader. Error if they do not make one batch.
  EpochLoader(std::span<const Token> tokens, const Options& options, Rng rng,
              std::string_view split = "training");

  Batch next();
  int64_t batches_per_epoch() const;
  // Whether a pass came to its end with one of the last `batches` batches. There have been as many
  // since the loader's state was set: those before may have had another batch_size.
  bool ended_pass(int64_t batches) const;

  // As in Loader; a state holds the place in the pass, too. It counts windows, so that a loader
  // with another batch_size goes on at the same place.
  Rng& rng() { return rng_; }
  std::string state() const;
  void set_state(std::string_view state);

 private:
  void begin_epoch(uint64_t seed);
  bool at_end() const;  // of a pass
  int64_t windows() const;

  std::span<const Token> tokens_;
  Options options_;
  Rng rng_;
  uint64_t seed_ = 0;           // of this pass' permutation
  int64_t next_ = 0;            // the next window of this pass
  std::vector<int64_t> order_;  // of the windows; empty before the first pass
};

// Walks once through all tokens in windows side by side, so that every token but the first is a
// target exactly once. Batches have up to `batch_size` rows of block_size tokens; the rest, if the
// windows do not divide the tokens evenly, comes last as one shorter row.
class SequentialBatches {
 public:
  // `tokens` must outlive this. Fewer than two tokens, which have no target, are an Error.
  SequentialBatches(std::span<const Token> tokens, int64_t batch_size, int64_t block_size,
                    std::string_view split = "validation");

  std::optional<Batch> next();  // nothing after the last one

 private:
  std::span<const Token> tokens_;
  int64_t batch_size_, block_size_;
  int64_t position_ = 0;
};

}  // namespace tapegrad::data
