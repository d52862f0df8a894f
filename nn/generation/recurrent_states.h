#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::nn {

// What a layer needs to go on behind a position.
struct RecurrentPlace {
  std::int64_t position = 0;  // how many positions it has seen
  Tensor state = {};          // of these; undefined: there are none
  Tensor inputs = {};         // of the latest of these, as many as a convolution sees
};

// What a layer whose state is too large to be kept for each position has of one sequence. Places
// are kept each kSpacing positions, and at the newest one. After a pass over rows of single
// positions, of which some may be proposals to be taken back (KVCache::expect_cuts), the newest
// place is before them, and their inputs are kept: so they are computed once more, and the sequence
// can be cut between them. Elsewhere it is cut at the place before, and whatever is missing is read
// anew.
class RecurrentStates {
 public:
  static constexpr std::int64_t kSpacing = 256;

  std::int64_t length() const { return newest().position + pending_count(); }  // positions
  const RecurrentPlace& newest() const;
  // How many positions have as much memory as the places that are kept, as
  // cache_bytes_per_position() counts them.
  std::int64_t positions_of_places() const { return kSpacing * std::ssize(places_); }
  // The inputs (P, W) of the positions behind newest(), undefined if there are none.
  const Tensor& pending() const { return pending_; }
  // The positions, behind newest() and ascending, whose places a pass over `count` more positions
  // is to make; `tentative`, if some of these may be taken back.
  std::vector<std::int64_t> places_after(std::int64_t count, bool tentative) const;
  // After that pass: these places, and the inputs of all positions behind the newest place before.
  void advance(std::vector<RecurrentPlace> places, const Tensor& inputs);
  // The most positions, at most `length`, that the sequence can be cut to.
  std::int64_t reachable(std::int64_t length) const;
  // Forgets all but the first reachable(length).
  void truncate(std::int64_t length);

 private:
  std::int64_t pending_count() const { return pending_.defined() ? pending_.dim(0) : 0; }

  std::vector<RecurrentPlace> places_;  // ascending
  Tensor pending_;
};

}  // namespace tapegrad::nn
