#pragma once

#include "tapegrad/nn/layers.h"
#include "tapegrad/run/folder/run_folder.h"

// The smallest model there is, with all that a checkpoint is taken of.
namespace tapegrad::testing {

struct Draws {
  Rng rng{3};
  std::string state() const { return rng.state(); }
  void set_state(std::string_view saved) { rng.set_state(saved); }
};

struct CheckpointModel {
  Rng rng{1};
  nn::Params params;
  nn::Linear line;
  std::unique_ptr<optim::GradientSync> sync;
  Draws draws;
  run::Resumable batches{draws};
  Rng dropout{2};
  run::Progress progress;

  explicit CheckpointModel(const run::RunFolder& folder)
      : params(folder.params(rng)),
        line(params / "line", 1, 1),
        sync(optim::make_gradient_sync(params.parameters(), optim::GroupRules{})) {}
  run::TrainState state() { return {params, *sync, batches, dropout, progress}; }
};

}  // namespace tapegrad::testing
