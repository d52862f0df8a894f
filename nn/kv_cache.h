#pragma once

#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::nn {

// The keys and values that one attention layer has computed of B sequences of equal length, side by
// side, so that the positions that follow need not compute them again. The first positions get as
// much room as they need; later on, room grows by doubling. The cache is written in place, which no
// tape may record.
class KeysAndValues {
 public:
  std::int64_t length() const { return length_; }  // positions of each sequence
  std::int64_t sequences() const { return keys_.defined() ? keys_.dim(0) : 0; }

  // Error unless attention to x (B, T, …) can go on after the positions here: they are none, or x
  // is one position of each sequence.
  void check_follows(const Tensor& x) const;
  // Adds keys and values (B, T, C) of the next T positions. Error if B or C is not that of the
  // positions before.
  void append(const Tensor& keys, const Tensor& values);
  // (B, length, C). Of one sequence, they share the data of the cache, and append() may change
  // them.
  Tensor keys() const { return filled(keys_); }
  Tensor values() const { return filled(values_); }
  // Goes on with these sequences, in this order, in place of those there are: sequence i is then
  // the one that was rows[i]. A sequence may be taken more than once, or not at all.
  void select(const std::vector<std::int32_t>& rows);

 private:
  Tensor filled(const Tensor& buffer) const;

  Tensor keys_, values_;  // (B, capacity, C), of which `length_` positions are filled
  std::int64_t length_ = 0;
};

// What a model remembers of the sequences that it generates: one element for each layer.
struct KVCache {
  std::vector<KeysAndValues> layers;

  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length(); }
  void select(const std::vector<std::int32_t>& rows);
};

}  // namespace tapegrad::nn
