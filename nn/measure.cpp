#include "tapegrad/nn/measure.h"

namespace tapegrad::nn::detail {
namespace {

constexpr double kMoments = 2;

double bytes_of(const NamedTensors& tensors) {
  double bytes = 0;
  for (const auto& [name, t] : tensors) bytes += static_cast<double>(t.bytes());
  return bytes;
}

}  // namespace

// The optimiser's moments live from the first step to the last, and its update needs no memory: so
// they need not be made here.
StepMemory measure(const DryRun& dry, const Params& params, const std::function<Tensor()>& loss) {
  StepMemory memory;
  memory.weights = bytes_of(params.tensors());
  memory.gradients = bytes_of(params.parameters());
  memory.optimizer = kMoments * memory.gradients;
  const auto before = static_cast<double>(dry.live());
  Tape tape;
  const Tensor made = loss();
  memory.activations = static_cast<double>(dry.peak()) - before;
  tape.backward(made);
  memory.total = static_cast<double>(dry.peak()) + memory.optimizer;
  return memory;
}

}  // namespace tapegrad::nn::detail
