#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/chat_set.h"
#include "tapegrad/data/loader.h"

namespace tapegrad::data {

// Endless batches of rows that are packed with whole conversations, which do not see each other
// (Batch::document_starts). A conversation of n tokens takes n − 1 places: its last token is a
// target alone. What is left of a row has no targets. An epoch is packed by best fit, the longest
// conversation first (Ding et al., "Fewer Truncations Improve Language Modeling", 2024), where
// chance decides among equal lengths; then its rows are shuffled. The row after the last one is the
// first one of the next epoch, so that each batch of a loader that shuffles is full.
class PackedBatches {
 public:
  struct Options {
    std::int64_t batch_size = 1, block_size = 1;
    ChatLoss loss = ChatLoss::answers;
    // False: rows and conversations in their order, and the last batch of an epoch has the rows
    // that are left.
    bool shuffle = true;
  };
  // Error if there is no conversation, or one that is longer than a row, or none of whose targets
  // counts.
  PackedBatches(std::shared_ptr<const ChatSet> set, const Options& options, Rng rng);

  Batch next();
  void skip();  // see Loader
  // How many targets of each of the next batches count; of pairs, how many pairs there are.
  std::vector<std::int64_t> counted(std::int64_t batches) const;
  std::int64_t batches_per_epoch() const;  // rounded up
  // True if one of the last `batches` batches completed an epoch.
  bool ended_epoch(std::int64_t batches) const;

  // As in Loader. A state also holds the row of the epoch.
  Rng& rng() { return rng_; }
  std::string state() const;
  void set_state(std::string_view state);

 private:
  void begin_epoch(std::uint64_t seed);
  std::vector<std::int64_t> conversations_of_pass(Rng& rng) const;
  std::int64_t rows() const { return std::ssize(row_ends_); }
  std::int64_t begin_batch();  // returns its rows; begins the first epoch
  std::int64_t next_row();     // begins the next epoch if it is due
  void fill(Batch& batch, std::int64_t b, std::int64_t row) const;
  std::int64_t counted_in(std::int64_t row) const;

  std::shared_ptr<const ChatSet> set_;
  Options options_;
  Rng rng_;
  // Of this epoch, and of the next one, which this one draws: others draw from rng_, too (dropout),
  // between batches that counted() has told of.
  std::uint64_t seed_ = 0, seed_behind_ = 0;
  std::int64_t next_ = 0;  // row of this epoch
  bool begun_ = false;
  std::vector<std::int64_t> packed_;    // conversations of an epoch, row after row
  std::vector<std::int64_t> row_ends_;  // in packed_
};

}  // namespace tapegrad::data
