#include "tapegrad/run/train/internal/group_batches.h"

#include <algorithm>
#include <utility>

namespace tapegrad::run {
namespace {

class GroupBatches final : public Objective {
 public:
  GroupBatches(std::shared_ptr<Objective> all, std::int64_t group, std::int64_t groups)
      : all_(std::move(all)), group_(group), groups_(groups) {}

  Loss loss() override {
    for (std::int64_t g = 0; g < group_; ++g) all_->skip_batch();
    Loss loss = all_->loss();
    for (std::int64_t g = group_ + 1; g < groups_; ++g) all_->skip_batch();
    return loss;
  }
  void skip_batch() override {
    for (std::int64_t g = 0; g < groups_; ++g) all_->skip_batch();
  }
  std::vector<std::int64_t> counted(std::int64_t batches) const override {
    const std::vector<std::int64_t> counts = all_->counted(batches * groups_);
    std::vector<std::int64_t> own;
    for (std::int64_t i = group_; i < std::ssize(counts); i += groups_) {
      own.push_back(counts[static_cast<std::size_t>(i)]);
    }
    return own;
  }
  std::vector<std::string> metrics() const override { return all_->metrics(); }
  std::vector<std::int64_t> take_counts() override { return all_->take_counts(); }
  void end_step(std::span<const std::int64_t> counts, bool updated) override {
    all_->end_step(counts, updated);
  }
  std::optional<Losses> evaluate() override { return all_->evaluate(); }

 private:
  const std::shared_ptr<Objective> all_;
  const std::int64_t group_, groups_;
};

}  // namespace

std::shared_ptr<Objective> batches_of_group(std::shared_ptr<Objective> all,
                                            const optim::MeetingPlace& place) {
  const auto own = std::find(place.groups.begin(), place.groups.end(), place.group);
  check(own != place.groups.end(), "group {} is not among those that meet", place.group);
  return std::make_shared<GroupBatches>(std::move(all), own - place.groups.begin(),
                                        std::ssize(place.groups));
}

}  // namespace tapegrad::run
