#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tapegrad/optim/internal/plain_updates.h"
#include "tapegrad/optim/internal/shares.h"

namespace tapegrad::optim {

// Local steps: see local_steps.h. There are as many groups as ranks, unless local.groups says
// otherwise; rank r is member r % K of group r / K, of K members. What is said here of ranks is
// then said of groups, whose members share an optimiser's state; all of them have the anchor.
//
// Each rank has all of an optimiser's state, of its own, and all weights of the last meeting, the
// anchor. The outer momentum is shared out among all ranks as moments are among processes that meet
// in each step (shares.h): at a meeting, each rank gets the differences of its share from its like
// in all groups, makes the outer step for it, and sends these what the anchor moves by; the members
// of each group exchange what they have got. Sums are made in the order of the ranks, and all of
// them subtract the same numbers from the same anchor. Buffers are what all ranks change alike
// after each step: they do not travel, and have their values of the last meeting kept while others
// are in use.
class LocalStepsSync : public GradientSync {
 public:
  // Null: one process.
  LocalStepsSync(const NamedTensors& parameters, const ParameterGroups& groups,
                 const LocalSteps& local, Processes* processes, CommDType sent,
                 std::int64_t bucket_size = kBucketSize, const NamedTensors& buffers = {},
                 Shard shard = Shard::gradients);

  void round(int active, const Backward& backward) override;
  Clipping measure_clipping(double max_norm) override;
  std::vector<GradientPart> gradients() const override;
  void step(double lr, double grad_factor, double decay_factor = 1) override;
  void zero_grad() override { own_->zero_grad(); }
  std::int64_t steps() const override { return own_->steps(); }
  const ParameterGroups& groups() const override { return groups_; }
  NamedTensors agreed(NamedTensors tensors) const override;
  std::int64_t steps_since_agreed() const override { return made_; }
  void restart() override;
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override;
  void load(const TensorSource& file) override;
  std::string broken_tensor() const override;

 private:
  int ranks() const { return processes_ == nullptr ? 1 : processes_->size(); }
  int rank() const { return processes_ == nullptr ? 0 : processes_->rank(); }
  int group_count() const { return ranks() / members_; }
  int group() const { return rank() / members_; }
  int member() const { return rank() % members_; }
  // The processes with this member's number in all groups.
  Processes* across() const { return members_ == 1 ? processes_ : across_.get(); }
  void meet_for(std::size_t bucket);
  Tensor mean_difference(const Bucket& bucket) const;
  Tensor packed_differences(const Bucket& bucket) const;
  void take_steps(const Bucket& bucket, const Tensor& own_step);
  std::vector<std::size_t> bytes_of_ranks(const Bucket& bucket) const;
  // Where this rank's part of a fragment that it owns begins in tensors of its share of a bucket.
  std::int64_t own_place(const Bucket& bucket, const Fragment& f) const {
    return f.at - bucket.offsets[static_cast<std::size_t>(rank())];
  }
  std::vector<Fragment> fragments_of(std::size_t parameter) const;
  Tensor gather_momentum(std::size_t parameter) const;
  Tensor gather_groups(const Tensor& own) const;
  std::int64_t made_in(const TensorSource& file) const;

  NamedTensors parameters_, buffers_;
  ParameterGroups groups_;
  LocalSteps local_;
  Processes* processes_;
  CommDType sent_;
  std::vector<Bucket> buckets_;
  const int members_;                           // of each group
  std::unique_ptr<Processes> inside_, across_;  // this group's, if members_ > 1
  std::unique_ptr<PlainUpdates> own_;           // this group's
  std::vector<Tensor> anchor_;                  // of each parameter
  std::vector<Tensor> kept_;      // of each buffer, its values of the last meeting if made_ > 0
  std::vector<Tensor> momentum_;  // of this rank's share of each bucket
  std::int64_t made_ = 0;         // steps since the last meeting
};

// Null: one process.
std::unique_ptr<GradientSync> make_local_steps(const NamedTensors& parameters,
                                               const ParameterGroups& groups,
                                               const LocalSteps& local, Processes* processes,
                                               CommDType sent, const NamedTensors& buffers,
                                               Shard shard);

}  // namespace tapegrad::optim
