#include "tapegrad/autograd/internal/recomputation.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

Tensor checkpoint(const CheckpointFunction& f, const std::vector<Tensor>& inputs, Rng* rng) {
  if (live_tapes().running_checkpoint != nullptr || !live_tapes().is_recording())
    return f(inputs, rng);
  const auto from = std::make_shared<Saved>("checkpoint", Needs{true});
  for (const Tensor& t : inputs) from->keep(t);
  const auto log = std::make_shared<CheckpointLog>();
  const std::optional<Rng> start = rng == nullptr ? std::nullopt : std::optional<Rng>(*rng);
  const auto run_again = [=](Inputs in) {
    std::optional<Rng> draws = start;
    RunningCheckpoint again(log);
    f(in, draws ? &*draws : nullptr);
    return again.take_made();
  };
  const RunningCheckpoint first(
      log, std::make_shared<Recomputation>("checkpoint", from, inputs.size(), run_again));
  return f(inputs, rng);
}

}  // namespace tapegrad
