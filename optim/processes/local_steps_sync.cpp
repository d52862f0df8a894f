#include "tapegrad/optim/processes/internal/local_steps_sync.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/processes/internal/outer_step.h"

namespace tapegrad::optim {
namespace {

// Bytes that are counted with those of tensors.
Tensor block(std::int64_t bytes) { return Tensor::empty({bytes}, DType::u8); }

std::span<std::byte> bytes_in(Tensor& t) {
  return std::as_writable_bytes(std::span(t.mutable_data<std::uint8_t>(), t.bytes()));
}

void copy_values(const Tensor& from, Tensor& to) {
  const std::span<const float> values = from.values<float>();
  std::copy(values.begin(), values.end(), to.mutable_data<float>());
}

}  // namespace

std::unique_ptr<GradientSync> make_local_steps(const NamedTensors& parameters,
                                               const ParameterGroups& groups,
                                               const LocalSteps& local, Processes* processes,
                                               CommDType sent, const NamedTensors& buffers) {
  return std::make_unique<LocalStepsSync>(parameters, groups, local, processes, sent, kBucketSize,
                                          buffers);
}

LocalStepsSync::LocalStepsSync(const NamedTensors& parameters, const ParameterGroups& groups,
                               const LocalSteps& local, Processes* processes, CommDType sent,
                               std::int64_t bucket_size, const NamedTensors& buffers)
    : parameters_(parameters),
      buffers_(buffers),
      groups_(groups),
      local_(local),
      processes_(processes),
      sent_(sent),
      buckets_(share_out(sizes_of(parameters), ranks(), bucket_size)),
      state_(parameters, groups) {
  check(local.steps >= 1, "local steps must be 1 or more before processes meet, not {}",
        local.steps);
  for (const auto& [name, t] : parameters_) anchor_.push_back(t.detach().clone());
  for (const auto& [name, t] : buffers_) kept_.push_back(t.clone());
  for (const Bucket& bucket : buckets_)
    momentum_.push_back(Tensor::zeros({bucket.size_of(rank())}));
}

// Backward adds to grad() by itself: no gradient leaves its process.
void LocalStepsSync::round(int active, const Backward& backward) {
  check(active >= 1 && active <= ranks(), "{} of {} ranks cannot have a micro-batch", active,
        ranks());
  if (rank() < active) backward({});
}

Clipping LocalStepsSync::measure_clipping(double max_norm) {
  return optim::measure_clipping(parameters_, max_norm);
}

// Rank 0's stand for all.
std::vector<GradientSync::GradientPart> LocalStepsSync::gradients() const {
  std::vector<GradientPart> parts;
  for (std::size_t p = 0; p < parameters_.size() && rank() == 0; ++p) {
    const Tensor gradient = parameters_[p].second.grad();
    if (gradient.defined()) parts.push_back({p, 0, gradient});
  }
  return parts;
}

void LocalStepsSync::step(double lr, double grad_factor, double decay_factor) {
  state_.step(lr, grad_factor, decay_factor);
  for (std::size_t i = 0; i < buffers_.size() && made_ == 0; ++i) {
    copy_values(buffers_[i].second, kept_[i]);  // what came after the step of the meeting, too
  }
  if (++made_ < local_.steps) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) meet(b);
  made_ = 0;
}

void LocalStepsSync::meet(std::size_t b) {
  Tensor step = mean_difference(buckets_[b]);
  make_outer_step(local_, step, momentum_[b]);
  take_steps(buckets_[b], step);
}

std::vector<std::size_t> LocalStepsSync::bytes_of_ranks(const Bucket& bucket) const {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks()));
  for (const Fragment& f : bucket.fragments) {
    bytes[static_cast<std::size_t>(f.owner)] +=
        static_cast<std::size_t>(bytes_sent(sent_, f.size()));
  }
  return bytes;
}

// What this rank's weights of a bucket are below the anchor, as it is sent.
Tensor LocalStepsSync::packed_differences(const Bucket& bucket) const {
  std::int64_t bytes = 0;
  for (const Fragment& f : bucket.fragments) bytes += bytes_sent(sent_, f.size());
  Tensor packed = block(bytes);
  std::uint8_t* to = packed.mutable_data<std::uint8_t>();
  for (const Fragment& f : bucket.fragments) {
    Tensor difference = Tensor::empty({f.size()});
    subtract(anchor_[f.parameter].data<float>() + f.begin,
             parameters_[f.parameter].second.data<float>() + f.begin,
             difference.mutable_data<float>(), f.size());
    pack(sent_, difference.data<float>(), to, f.size());
    to += bytes_sent(sent_, f.size());
  }
  return packed;
}

// Of this rank's share of a bucket: the mean over the ranks of what they have moved since the last
// meeting.
Tensor LocalStepsSync::mean_difference(const Bucket& bucket) const {
  Tensor received = packed_differences(bucket);
  if (processes_ != nullptr) {
    Tensor sent = std::exchange(received, Tensor());
    const std::vector<std::size_t> sizes = bytes_of_ranks(bucket);
    const std::size_t own = sizes[static_cast<std::size_t>(rank())];
    received = block(static_cast<std::int64_t>(own) * ranks());
    processes_
        ->all_to_all(bytes_in(sent), sizes, bytes_in(received),
                     std::vector<std::size_t>(sizes.size(), own))
        .wait();
  }
  Tensor mean = Tensor::zeros({bucket.size_of(rank())});
  const std::uint8_t* from = received.data<std::uint8_t>();
  for (int r = 0; r < ranks(); ++r) {
    for (const Fragment& f : bucket.fragments) {
      if (f.owner != rank()) continue;
      Tensor term = Tensor::empty({f.size()});
      unpack(sent_, from, term.mutable_data<float>(), f.size());
      from += bytes_sent(sent_, f.size());
      add_to(mean, own_place(bucket, f), term);
    }
  }
  divide(mean, ranks());
  return mean;
}

// Every rank's step of its share becomes everybody's, and the weights are those of the new anchor.
void LocalStepsSync::take_steps(const Bucket& bucket, const Tensor& own_step) {
  const std::vector<std::size_t> sizes = bytes_of_ranks(bucket);
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  Tensor packed = block(static_cast<std::int64_t>(bytes));
  std::uint8_t* at = packed.mutable_data<std::uint8_t>();
  for (const Fragment& f : bucket.fragments) {  // by owner
    if (f.owner == rank()) pack(sent_, own_step.data<float>() + own_place(bucket, f), at, f.size());
    at += bytes_sent(sent_, f.size());
  }
  if (processes_ != nullptr) processes_->all_gather_parts(bytes_in(packed), sizes).wait();
  const std::uint8_t* from = packed.data<std::uint8_t>();
  for (const Fragment& f : bucket.fragments) {
    Tensor step = Tensor::empty({f.size()});
    unpack(sent_, from, step.mutable_data<float>(), f.size());
    from += bytes_sent(sent_, f.size());
    move_anchor(step.data<float>(), anchor_[f.parameter].mutable_data<float>() + f.begin,
                parameters_[f.parameter].second.mutable_data<float>() + f.begin, f.size());
  }
}

NamedTensors LocalStepsSync::agreed(NamedTensors tensors) const {
  std::map<std::string, const Tensor*> anchors;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    anchors[parameters_[p].first] = &anchor_[p];
  }
  for (std::size_t i = 0; i < buffers_.size() && made_ > 0; ++i) {
    anchors[buffers_[i].first] = &kept_[i];
  }
  for (auto& [name, t] : tensors) {
    if (const auto it = anchors.find(name); it != anchors.end()) t = *it->second;
  }
  return tensors;
}

void LocalStepsSync::restart() {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    copy_values(anchor_[p], parameters_[p].second);
  for (std::size_t i = 0; i < buffers_.size() && made_ > 0; ++i) {
    copy_values(kept_[i], buffers_[i].second);
  }
  made_ = 0;
}

}  // namespace tapegrad::optim
