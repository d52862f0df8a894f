#include "tapegrad/optim/processes/internal/shared_weights.h"

#include <algorithm>
#include <cstddef>

#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/optim/parameter_groups.h"

namespace tapegrad::optim {
namespace {

// The elements of a parameter, to be restored: the values are those that a tape may have saved, and
// so its version stays.
float* restored(const Tensor& t) { return const_cast<float*>(t.data<float>()); }

Tensor make_blank(const NamedTensors& parameters) {
  std::int64_t most = 0;
  for (const auto& [name, t] : parameters) most = std::max(most, t.numel());
  const DryRun dry;
  return Tensor::empty({most});
}

}  // namespace

std::unique_ptr<RankWeights> make_shared_weights(const NamedTensors& parameters,
                                                 const std::vector<Bucket>& buckets,
                                                 Processes& processes) {
  return std::make_unique<SharedWeights>(parameters, buckets, processes);
}

SharedWeights::SharedWeights(const NamedTensors& parameters, const std::vector<Bucket>& buckets,
                             Processes& processes)
    : RankWeights(parameters, buckets, processes),
      blocks_(blocks_of(parameters)),
      places_(blocks_.size()),
      here_(blocks_.size(), true),
      blank_(make_blank(parameters)) {
  std::vector<std::size_t> numbers(parameters.size());  // of the blocks of parameters
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const std::size_t p : blocks_[i]) numbers[p] = i;
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& [begin, end] = places_[numbers[buckets_[b].fragments.front().parameter]];
    if (end == 0) begin = b;
    end = b + 1;
    own_.push_back(Tensor::empty({buckets_[b].size_of(rank())}));
  }
  for (std::size_t i = 0; i < others(); ++i) order_.push_back(i);
  // Backward begins with two blocks that are here still.
  for (std::size_t i = others(); i-- > 2;) order_.push_back(i - 2);
}

SharedWeights::~SharedWeights() {
  for (auto& [name, t] : parameters_) {
    try {
      t.restore_data();
    } catch (const Error&) {  // no memory, which an error on its way may be about
      t.release_data([]() -> void* { fail("a parameter that was shared out has no memory"); });
    }
  }
}

Tensor SharedWeights::own(std::size_t b, const Fragment& f) const {
  const std::int64_t begin = f.at - buckets_[b].offsets[static_cast<std::size_t>(rank())];
  return own_[b].rows(begin, begin + f.size());
}

// Of parameters that are whole: whoever has them may have given them other values.
void SharedWeights::keep_own_values() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const Fragment& f : buckets_[b].fragments) {
      if (f.owner != rank()) continue;
      Tensor kept = own(b, f);
      std::copy_n(parameters_[f.parameter].second.data<float>() + f.begin, f.size(),
                  kept.mutable_data<float>());
    }
  }
}

void SharedWeights::begin_round(Completed completed) {
  completed_ = std::move(completed);
  in_round_ = true;
  computing_ = std::this_thread::get_id();
  next_ = 0;
  told_ = others();
  if (std::exchange(whole_, false)) {
    keep_own_values();
    for (std::size_t block = 0; block < others(); ++block) release(block);
  }
  const bool gathers = !here_[others()];
  if (gathers) send_block(others());
  if (!order_.empty()) send_block(order_.front());
  if (gathers) receive_block(others());
}

void* SharedWeights::fetch(std::size_t parameter, std::size_t block) {
  if (in_dry_run()) return blank_.mutable_data<float>();
  // Backward asks for no weights of a block whose biases alone are trained, and passes it over.
  const auto next = order_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto until = next_ < others() ? next + 1 : order_.end();
  check(
      in_round_ && std::this_thread::get_id() == computing_ &&
          std::find(next, until, block) != until,
      "'{}' is not here: with --shard parameters, a model must work with its blocks one after the "
      "other, forward and then back, once for each batch",
      parameters_[parameter].first);
  while (!here_[block]) enter_next();
  return nullptr;
}

void SharedWeights::enter_next() {
  const bool forward = next_ < others();
  const std::size_t block = order_[next_++];
  if (!forward) release(block + 2);
  if (forward && block >= 2) release(block - 2);
  receive_block(block);
  if (next_ < order_.size()) send_block(order_[next_]);
  if (!forward) tell_from(block + 2);
}

// Backward has left these blocks.
void SharedWeights::tell_from(std::size_t block) {
  while (told_ > block) completed_(blocks_[--told_]);
}

void SharedWeights::end_round() {
  while (next_ < order_.size()) enter_next();
  tell_from(0);
  completed_(blocks_[others()]);
  for (std::size_t block = 0; block < others(); ++block) release(block);
  in_round_ = false;
}

void SharedWeights::end_update() {
  for (std::size_t block = 0; block < blocks_.size(); ++block) release(block);
  whole_ = false;
}

void SharedWeights::gather() {
  if (whole_) return;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    if (here_[block]) continue;
    send_block(block);
    receive_block(block);
  }
  whole_ = true;
}

void SharedWeights::send_block(std::size_t block) {
  const auto [begin, end] = places_[block];
  for (std::size_t b = begin; b < end; ++b) send(b);
}

void SharedWeights::receive_block(std::size_t block) {
  for (const std::size_t p : blocks_[block]) parameters_[p].second.restore_data();
  const auto [begin, end] = places_[block];
  for (std::size_t b = begin; b < end; ++b) {
    const Tensor values = receive(b);
    for (const Fragment& f : buckets_[b].fragments) {
      std::copy_n(values.data<float>() + f.at, f.size(),
                  restored(parameters_[f.parameter].second) + f.begin);
    }
  }
  here_[block] = true;
}

void SharedWeights::release(std::size_t block) {
  if (!std::exchange(here_[block], false)) return;
  for (const std::size_t p : blocks_[block])
    parameters_[p].second.release_data([this, p, block] { return fetch(p, block); });
}

}  // namespace tapegrad::optim
