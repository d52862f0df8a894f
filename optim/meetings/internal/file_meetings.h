#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/optim/meetings/internal/meeting_file.h"

namespace tapegrad::optim {

// A group's side of meetings through files: see meetings/hold_meeting.h. `sync` makes the steps of
// the group, in one process or in several, of which rank 0 alone reads and writes files.
//
// Between two meetings, agreed() has the anchor, so that a model file does, and the optimiser's
// file has the weights beside it, as "local_weights.<name>". Which meeting was the last one, and
// its digest, are in the metadata. So a checkpoint that is taken while a meeting is due has
// everything that the group hands in, and a group that is stopped before, while or after it does so
// goes on to the same bits.
class FileMeetings : public GradientSync {
 public:
  // `processes` are those of the group. Null: one.
  FileMeetings(std::unique_ptr<GradientSync> sync, const NamedTensors& parameters,
               const LocalSteps& local, Processes* processes, CommDType sent);

  void round(int active, const Backward& backward) override { sync_->round(active, backward); }
  Clipping measure_clipping(double max_norm) override { return sync_->measure_clipping(max_norm); }
  std::vector<GradientPart> gradients() const override { return sync_->gradients(); }
  void step(double lr, double grad_factor, double decay_factor) override;
  void zero_grad() override { sync_->zero_grad(); }
  std::int64_t steps() const override { return sync_->steps(); }
  const ParameterGroups& groups() const override { return sync_->groups(); }
  NamedTensors agreed(NamedTensors tensors) const override;
  std::int64_t steps_since_agreed() const override { return made_; }
  void restart() override;
  bool meeting_due() const override { return made_ == local_.steps; }
  std::string meet() override;
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override;
  void load(const TensorSource& file) override;
  std::string broken_tensor() const override { return sync_->broken_tensor(); }

 private:
  const MeetingPlace& place() const { return *local_.place; }
  bool leads() const { return processes_ == nullptr || processes_->rank() == 0; }
  MeetingTerms terms() const;
  void hand_in();
  std::optional<MeetingFile> read_next(std::string& why) const;
  bool take_next(std::string& words);
  void take(const MeetingFile& step);
  void share(MeetingFile& step) const;

  const std::unique_ptr<GradientSync> sync_;
  const NamedTensors parameters_;
  const LocalSteps local_;
  Processes* const processes_;
  const CommDType sent_;
  std::string key_;             // of rank 0
  std::vector<Tensor> anchor_;  // of each parameter
  std::int64_t made_ = 0;       // steps since the last meeting
  std::int64_t held_ = 0;       // meetings
  std::string base_;            // of the next one: see MeetingRecord
  bool handed_in_ = false;      // by this object
};

std::unique_ptr<GradientSync> meet_by_files(std::unique_ptr<GradientSync> sync,
                                            const NamedTensors& parameters, const LocalSteps& local,
                                            Processes* processes, CommDType sent);

}  // namespace tapegrad::optim
