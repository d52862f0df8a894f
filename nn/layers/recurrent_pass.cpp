#include "tapegrad/nn/layers/internal/recurrent_pass.h"

#include <iterator>
#include <utility>

#include "tapegrad/autograd/ops.h"

namespace tapegrad::nn {

RecurrentPass::RecurrentPass(std::vector<RecurrentRun> runs, const Tensor& inputs,
                             std::int64_t before)
    : runs_(std::move(runs)), before_(before) {
  std::vector<Tensor> parts;
  for (const RecurrentRun& run : runs_) {
    const RecurrentStates& states = *run.states;
    const RecurrentPlace& place = states.newest();
    const std::int64_t begin = (pieces_.empty() ? 0 : pieces_.back().end) + before;
    parts.push_back(place.inputs.defined()
                        ? place.inputs
                        : Tensor::zeros({before, inputs.dim(1)}, inputs.dtype()));
    if (states.pending().defined()) parts.push_back(states.pending());
    parts.push_back(slice(inputs, 0, run.row, run.row + run.count));
    StatePiece piece{.begin = begin, .end = begin, .state = place.state, .keep = {}};
    piece.end += states.length() - place.position + run.count;
    for (const std::int64_t position : states.places_after(run.count, run.tentative)) {
      piece.keep.push_back(begin + position - place.position - 1);
    }
    for (std::int64_t row = piece.end - run.count; row < piece.end; ++row) {
      fresh_.push_back(static_cast<std::int32_t>(row));
    }
    pieces_.push_back(std::move(piece));
  }
  rows_ = concat(parts, 0);
}

Tensor RecurrentPass::finish(const Tensor& y) const {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const StatePiece& piece = pieces_[i];
    RecurrentStates& states = *runs_[i].states;
    const std::int64_t first = states.newest().position;
    std::vector<RecurrentPlace> places;
    for (std::size_t k = 0; k < piece.keep.size(); ++k) {
      const std::int64_t behind = piece.keep[k] + 1;
      places.push_back({.position = first + behind - piece.begin,
                        .state = piece.kept[k],
                        .inputs = slice(rows_, 0, behind - before_, behind)});
    }
    states.advance(std::move(places), slice(rows_, 0, piece.begin, piece.end));
  }
  return gather_rows(y, Tensor::from(fresh_, {std::ssize(fresh_)}));
}

}  // namespace tapegrad::nn
