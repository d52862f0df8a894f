#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad::arrays {

// The tensors of some rows: a batch, in the order in which the loader got the arrays.
using Rows = std::vector<Tensor>;

// Endless batches of rows of several arrays, epoch after epoch, such as inputs and targets:
//   ArrayLoader loader({images, labels}, {.batch_size = 64}, Rng(1));
//   const Rows batch = loader.next();  // images of (64, …), and labels of (64)
//
// With an Rng of Kind::torch, batches are those of PyTorch's DataLoader of a TensorDataset without
// worker processes, as for data::EpochLoader: each epoch draws a 63-bit number, from which
// the random numbers of `transform` follow here, and one that shuffles then draws the seed of its
// permutation.
class ArrayLoader {
 public:
  struct Options {
    std::int64_t batch_size = 1;
    bool shuffle = true;
    // As many as there are rows: each epoch then draws as many, in proportion to these numbers and
    // with repetitions, as weighted_sample() of row_selection.h. Needs `shuffle`.
    std::vector<double> weights = {};
    bool drop_last = false;  // leave out the last batch of an epoch if it is not full
    // Makes something else of each batch: other types, augmented images. Random numbers come from
    // the Rng that it gets, which follows from epoch and batch alone. With `background` it runs on
    // another thread, so it may not touch what others change meanwhile.
    std::function<Rows(Rows, Rng&)> transform = {};
    // Makes the next batch on a thread of its own while the caller computes; the batches are the
    // same.
    bool background = false;
  };

  // Error unless there are arrays, of as many rows each, that fill a batch.
  ArrayLoader(Rows arrays, Options options, Rng rng);
  ~ArrayLoader();
  ArrayLoader(const ArrayLoader&) = delete;
  ArrayLoader& operator=(const ArrayLoader&) = delete;

  // Whatever `transform` throws is thrown here; then the loader stays before that batch. Error if a
  // live tape tracks an array, whose gradient would end here.
  Rows next();
  std::int64_t batches_per_epoch() const;
  // How many epochs are complete.
  std::int64_t epoch() const;

  // Everything that decides the next batches, as one line of ASCII; a run::Task keeps it in
  // checkpoints. A loader of as many rows goes on from it, also with another batch_size. Error for
  // a text that state() cannot have written, or of another number of rows; nothing changes then.
  std::string state() const;
  void set_state(std::string_view saved);

 private:
  // What decides the next batches.
  struct Cursor {
    std::int64_t epoch = 0;                           // epochs that have begun
    std::int64_t next = 0;                            // position of the next row in this epoch
    std::int64_t transform_seed = 0, order_seed = 0;  // of this epoch
    Rng rng;
    std::shared_ptr<const std::vector<std::int64_t>> order = {};  // null: rows as they are
  };
  struct Ahead;  // a batch that may come from another thread

  std::int64_t rows() const { return arrays_[0].dim(0); }
  bool at_end(const Cursor& cursor) const;
  void set_order(Cursor& cursor) const;
  Tensor rows_of(const Tensor& array, const Cursor& cursor, std::int64_t count) const;
  Rows take(Cursor& cursor) const;
  void make_ahead();

  Rows arrays_;
  Options options_;
  Cursor cursor_;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace tapegrad::arrays
