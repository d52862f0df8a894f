#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/nn/generation/kv_cache.h"

namespace tapegrad::nn {

// A pass of a recurrent layer over rows of several sequences, one behind the other: for each, the
// inputs before its newest place that a convolution sees, those behind it that were kept, and the
// new ones.
class RecurrentPass {
 public:
  // `inputs` are the new rows, of which each run has some. A convolution sees `before` rows before
  // its own.
  RecurrentPass(std::vector<RecurrentRun> runs, const Tensor& inputs, std::int64_t before);
  const Tensor& rows() const { return rows_; }
  // Where sequences go on from their states, and which states are to be kept of them.
  std::span<StatePiece> pieces() { return pieces_; }
  // Gives caches the states of the pieces. The new rows of y, which has one for each of rows().
  Tensor finish(const Tensor& y) const;

 private:
  std::vector<RecurrentRun> runs_;
  std::int64_t before_;
  Tensor rows_;
  std::vector<StatePiece> pieces_;
  std::vector<std::int32_t> fresh_;  // the new ones
};

}  // namespace tapegrad::nn
