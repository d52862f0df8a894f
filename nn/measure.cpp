#include "tapegrad/nn/measure.h"

#include <algorithm>

namespace tapegrad::nn::detail {
namespace {

double bytes_of(const NamedTensors& tensors) {
  double bytes = 0;
  for (const auto& [name, t] : tensors) bytes += static_cast<double>(t.bytes());
  return bytes;
}

}  // namespace

// The optimiser's state lives from the first step to the last. Backward does not touch it, so it
// is made for the update alone.
StepMemory measure(const DryRun& dry, const Params& params, const std::function<Tensor()>& loss,
                   const BytesKept& kept, const Update& update) {
  StepMemory memory;
  memory.weights = bytes_of(params.tensors());
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    memory.weights += static_cast<double>(matrix->bytes());
  }
  memory.gradients = bytes_of(params.parameters());
  const KeptBytes bytes = kept ? kept(params.parameters()) : KeptBytes();
  memory.optimizer = bytes.all;
  memory.most_uncut = bytes.most_uncut;
  const auto before = static_cast<double>(dry.live());
  Tape tape;
  const Tensor made = loss();
  memory.activations = static_cast<double>(dry.peak()) - before;
  tape.backward(made);
  memory.total = static_cast<double>(dry.peak()) + memory.optimizer;
  if (update) {
    update(params.parameters());
    memory.total = std::max(memory.total, static_cast<double>(dry.peak()));
  }
  return memory;
}

}  // namespace tapegrad::nn::detail
