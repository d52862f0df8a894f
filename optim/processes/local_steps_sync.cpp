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

// How many of so many ranks are in each group.
int members_of(int ranks, std::optional<std::int64_t> groups) {
  if (!groups) return 1;
  check(*groups >= 1 && ranks % *groups == 0,
        "--groups {}: {} processes cannot be divided into so many groups of one size", *groups,
        ranks);
  return ranks / static_cast<int>(*groups);
}

}  // namespace

std::unique_ptr<GradientSync> make_local_steps(const NamedTensors& parameters,
                                               const ParameterGroups& groups,
                                               const LocalSteps& local, Processes* processes,
                                               CommDType sent, const NamedTensors& buffers,
                                               Shard shard) {
  return std::make_unique<LocalStepsSync>(parameters, groups, local, processes, sent, kBucketSize,
                                          buffers, shard);
}

LocalStepsSync::LocalStepsSync(const NamedTensors& parameters, const ParameterGroups& groups,
                               const LocalSteps& local, Processes* processes, CommDType sent,
                               std::int64_t bucket_size, const NamedTensors& buffers, Shard shard)
    : parameters_(parameters),
      buffers_(buffers),
      groups_(groups),
      local_(local),
      processes_(processes),
      sent_(sent),
      buckets_(share_out(sizes_of(parameters), ranks(), bucket_size)),
      members_(members_of(ranks(), local.groups)) {
  if (members_ > 1) {
    std::vector<int> neighbours, likes;
    for (int m = 0; m < members_; ++m) neighbours.push_back(group() * members_ + m);
    for (int g = 0; g < group_count(); ++g) likes.push_back(g * members_ + member());
    inside_ = processes->part(neighbours);
    across_ = processes->part(likes);
  }
  own_ = make_plain_updates(parameters, groups, inside_.get(), CommDType::f32, shard);
  check(local.steps >= 1, "local steps must be 1 or more before processes meet, not {}",
        local.steps);
  for (const auto& [name, t] : parameters_) anchor_.push_back(t.detach().clone());
  for (const auto& [name, t] : buffers_) kept_.push_back(t.clone());
  for (const Bucket& bucket : buckets_)
    momentum_.push_back(Tensor::zeros({bucket.size_of(rank())}));
}

// The first `active` micro-batches of a round go to the first members of all groups, then to the
// second ones and so on: as many to each group. No gradient leaves its group.
void LocalStepsSync::round(int active, const Backward& backward) {
  check(active >= 1 && active <= ranks(), "{} of {} ranks cannot have a micro-batch", active,
        ranks());
  const int own = (active - group() + group_count() - 1) / group_count();
  check(members_ == 1 || own * group_count() == active,
        "{} groups cannot share out {} micro-batches evenly", group_count(), active);
  if (own > 0) own_->round(own, backward);
}

Clipping LocalStepsSync::measure_clipping(double max_norm) {
  return own_->measure_clipping(max_norm);
}

// Those of the first group stand for all.
std::vector<GradientSync::GradientPart> LocalStepsSync::gradients() const {
  return group() == 0 ? own_->gradients() : std::vector<GradientPart>();
}

void LocalStepsSync::step(double lr, double grad_factor, double decay_factor) {
  own_->step(lr, grad_factor, decay_factor);
  for (std::size_t i = 0; i < buffers_.size() && made_ == 0; ++i) {
    copy_values(buffers_[i].second, kept_[i]);  // what came after the step of the meeting, too
  }
  if (++made_ < local_.steps) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) meet_for(b);
  made_ = 0;
}

void LocalStepsSync::meet_for(std::size_t b) {
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

// What this rank's weights of a bucket are below the anchor, as it is sent to its like in all
// groups.
Tensor LocalStepsSync::packed_differences(const Bucket& bucket) const {
  std::int64_t bytes = 0;
  for (const Fragment& f : bucket.fragments)
    bytes += f.owner % members_ == member() ? bytes_sent(sent_, f.size()) : 0;
  Tensor packed = block(bytes);
  std::uint8_t* to = packed.mutable_data<std::uint8_t>();
  for (const Fragment& f : bucket.fragments) {
    if (f.owner % members_ != member()) continue;
    Tensor difference = Tensor::empty({f.size()});
    subtract(anchor_[f.parameter].data<float>() + f.begin,
             parameters_[f.parameter].second.data<float>() + f.begin,
             difference.mutable_data<float>(), f.size());
    pack(sent_, difference.data<float>(), to, f.size());
    to += bytes_sent(sent_, f.size());
  }
  return packed;
}

// Of this rank's share of a bucket: the mean over the groups of what they have moved since the last
// meeting.
Tensor LocalStepsSync::mean_difference(const Bucket& bucket) const {
  Tensor received = packed_differences(bucket);
  if (processes_ != nullptr) {
    Tensor sent = std::exchange(received, Tensor());
    const std::vector<std::size_t> all = bytes_of_ranks(bucket);
    const std::size_t own = all[static_cast<std::size_t>(rank())];
    std::vector<std::size_t> sizes;
    for (int g = 0; g < group_count(); ++g)
      sizes.push_back(all[static_cast<std::size_t>(g * members_ + member())]);
    received = block(static_cast<std::int64_t>(own) * group_count());
    across()
        ->all_to_all(bytes_in(sent), sizes, bytes_in(received),
                     std::vector<std::size_t>(sizes.size(), own))
        .wait();
  }
  Tensor mean = Tensor::zeros({bucket.size_of(rank())});
  const std::uint8_t* from = received.data<std::uint8_t>();
  for (int g = 0; g < group_count(); ++g) {
    for (const Fragment& f : bucket.fragments) {
      if (f.owner != rank()) continue;
      Tensor term = Tensor::empty({f.size()});
      unpack(sent_, from, term.mutable_data<float>(), f.size());
      from += bytes_sent(sent_, f.size());
      add_to(mean, own_place(bucket, f), term);
    }
  }
  divide(mean, group_count());
  return mean;
}

// Every rank's step of its share becomes everybody's, and the weights are those of the new anchor.
// What is sent is ordered by members, of each by groups.
void LocalStepsSync::take_steps(const Bucket& bucket, const Tensor& own_step) {
  const std::vector<std::size_t> bytes = bytes_of_ranks(bucket);
  std::vector<std::size_t> of_members(static_cast<std::size_t>(members_)), of_likes;
  std::size_t all = 0, before = 0;  // before: bytes of earlier members
  std::vector<const Fragment*> order;
  for (int m = 0; m < members_; ++m) {
    if (m == member()) before = all;
    for (int g = 0; g < group_count(); ++g) {
      const std::size_t size = bytes[static_cast<std::size_t>(g * members_ + m)];
      of_members[static_cast<std::size_t>(m)] += size;
      if (m == member()) of_likes.push_back(size);
      all += size;
    }
    for (const Fragment& f : bucket.fragments) {  // by owner
      if (f.owner % members_ == m) order.push_back(&f);
    }
  }
  Tensor packed = block(static_cast<std::int64_t>(all));
  std::uint8_t* at = packed.mutable_data<std::uint8_t>();
  for (const Fragment* f : order) {
    if (f->owner == rank())
      pack(sent_, own_step.data<float>() + own_place(bucket, *f), at, f->size());
    at += bytes_sent(sent_, f->size());
  }
  const std::span<std::byte> sent = bytes_in(packed);
  if (processes_ != nullptr) {
    const std::size_t own = of_members[static_cast<std::size_t>(member())];
    across()->all_gather_parts(sent.subspan(before, own), of_likes).wait();
  }
  if (inside_) inside_->all_gather_parts(sent, of_members).wait();
  const std::uint8_t* from = packed.data<std::uint8_t>();
  for (const Fragment* f : order) {
    Tensor step = Tensor::empty({f->size()});
    unpack(sent_, from, step.mutable_data<float>(), f->size());
    from += bytes_sent(sent_, f->size());
    move_anchor(step.data<float>(), anchor_[f->parameter].mutable_data<float>() + f->begin,
                parameters_[f->parameter].second.mutable_data<float>() + f->begin, f->size());
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
