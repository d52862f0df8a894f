#include "tapegrad/nn/generation/recurrent_states.h"

#include <algorithm>

#include "tapegrad/autograd/ops.h"

namespace tapegrad::nn {

const RecurrentPlace& RecurrentStates::newest() const {
  static const RecurrentPlace kBeginning;
  return places_.empty() ? kBeginning : places_.back();
}

std::vector<std::int64_t> RecurrentStates::places_after(std::int64_t count, bool tentative) const {
  const std::int64_t first = newest().position, before = length(), end = before + count;
  const std::int64_t last = tentative ? before : end;
  std::vector<std::int64_t> positions;
  for (std::int64_t at = (first / kSpacing + 1) * kSpacing; at < last; at += kSpacing) {
    positions.push_back(at);
  }
  if (last > first) positions.push_back(last);
  return positions;
}

void RecurrentStates::advance(std::vector<RecurrentPlace> places, const Tensor& inputs) {
  const std::int64_t first = newest().position;
  if (!places.empty() && first % kSpacing != 0) places_.pop_back();
  for (RecurrentPlace& place : places) places_.push_back(std::move(place));
  const std::int64_t known = newest().position - first;
  pending_ = known < inputs.dim(0) ? slice(inputs, 0, known, inputs.dim(0)) : Tensor();
}

std::int64_t RecurrentStates::reachable(std::int64_t length) const {
  if (length >= newest().position) return std::min(length, this->length());
  const auto behind = std::find_if(places_.begin(), places_.end(),
                                   [&](const RecurrentPlace& p) { return p.position > length; });
  return behind == places_.begin() ? 0 : std::prev(behind)->position;
}

void RecurrentStates::truncate(std::int64_t length) {
  const std::int64_t left = reachable(length);
  if (left < newest().position) {
    std::erase_if(places_, [&](const RecurrentPlace& p) { return p.position > left; });
    pending_ = Tensor();
  } else if (pending_.defined()) {
    const std::int64_t rows = left - newest().position;
    pending_ = rows > 0 ? slice(pending_, 0, 0, rows) : Tensor();
  }
}

}  // namespace tapegrad::nn
