#include "tapegrad/nn/measure.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "tapegrad/autograd/module_names.h"

namespace tapegrad::nn {
namespace {

double bytes_in(const Tensor& t) { return static_cast<double>(t.bytes()); }

double bytes_of(const NamedTensors& tensors) {
  double bytes = 0;
  for (const auto& [name, t] : tensors) bytes += bytes_in(t);
  return bytes;
}

// Follows a backward pass in a dry run, whose tensors besides gradients were `before` bytes.
class Watch {
 public:
  Watch(DryRun& dry, const NamedTensors& parameters, double before, StepMemory& memory)
      : dry_(dry), before_(before), memory_(memory) {
    for (const auto& [name, t] : parameters) {
      if (!block_of(name).empty()) of_blocks_.insert(t.id());
    }
  }

  // A gradient that is complete stays, as in one process. What its passing on would free is known.
  void take(Tensor parameter, const Tensor& gradient) {
    note();
    parameter.set_grad(gradient);
    held_ += bytes_in(gradient);
    if (of_blocks_.count(parameter.id())) {
      held_of_blocks_ += bytes_in(gradient);
      return;
    }
    const double copied = live() + bytes_in(gradient);
    memory_.passes_by_blocks = std::max(memory_.passes_by_blocks, copied - held_of_blocks_);
  }
  // Takes notice of the peak since it was called last.
  void note() {
    const double now = static_cast<double>(dry_.peak());
    memory_.total = std::max(memory_.total, now);
    memory_.passes = std::max(memory_.passes, now - before_ - held_);
    memory_.passes_by_blocks = std::max(memory_.passes_by_blocks, now - before_ - held_of_blocks_);
    dry_.reset_peak();
  }
  double live() const { return static_cast<double>(dry_.live()) - before_; }
  double held() const { return held_; }

 private:
  DryRun& dry_;
  const double before_;
  StepMemory& memory_;
  std::unordered_set<std::uint64_t> of_blocks_;
  double held_ = 0, held_of_blocks_ = 0;  // gradients
};

}  // namespace

void measure_blocks(StepMemory& memory, const NamedTensors& parameters) {
  std::map<std::string, double> blocks;
  for (const auto& [name, t] : parameters) {
    if (const std::string block = block_of(name); !block.empty()) blocks[block] += bytes_in(t);
  }
  for (const auto& [name, bytes] : blocks) {
    memory.blocks += bytes;
    memory.largest_block = std::max(memory.largest_block, bytes);
  }
}

// The optimiser's state lives from the first step to the last. Backward does not touch it, so it
// is made for the update alone.
StepMemory detail::measure(DryRun& dry, const Params& params, const std::function<Tensor()>& loss,
                           const BytesKept& kept, const Update& update) {
  StepMemory memory;
  memory.weights = bytes_of(params.tensors());
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    memory.weights += static_cast<double>(matrix->bytes());
  }
  const NamedTensors& parameters = params.parameters();
  memory.gradients = bytes_of(parameters);
  measure_blocks(memory, parameters);
  const KeptBytes bytes = kept ? kept(parameters) : KeptBytes();
  memory.optimizer = bytes.all;
  memory.most_uncut = bytes.most_uncut;
  const auto before = static_cast<double>(dry.live());
  Watch watch(dry, parameters, before, memory);
  Tape tape;
  const Tensor made = loss();
  memory.activations = static_cast<double>(dry.peak()) - before;
  tape.backward(made, {.take = [&](const Tensor& parameter, const Tensor& gradient) {
                  watch.take(parameter, gradient);
                }});
  watch.note();
  memory.total += memory.optimizer;
  if (update) {
    update(parameters);
    const auto peak = static_cast<double>(dry.peak());
    memory.total = std::max(memory.total, peak);
    memory.updating = std::max(0.0, peak - before - watch.held() - memory.optimizer);
  }
  return memory;
}

}  // namespace tapegrad::nn
