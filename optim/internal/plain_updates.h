#pragma once

#include <memory>
#include <vector>

#include "tapegrad/optim/gradient_sync.h"

namespace tapegrad::optim {

// A GradientSync of updates alone, by one process or by several that meet in each step. Others are
// made of one.
class PlainUpdates : public GradientSync {
 public:
  // What a checkpoint has of the optimiser. All processes make each tensor, in this order; rank 0
  // gets it, and others an undefined one.
  struct Kept {
    std::vector<TensorToMake> tensors;
    Metadata metadata;
  };
  virtual Kept kept() const = 0;
};

// Null: one process.
std::unique_ptr<PlainUpdates> make_plain_updates(const NamedTensors& parameters,
                                                 const ParameterGroups& groups,
                                                 Processes* processes, CommDType sent, Shard shard);

}  // namespace tapegrad::optim
