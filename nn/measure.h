#pragma once

#include <functional>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// The memory and the work of a model, found from the model itself, which is built and run without
// memory or work: see dry_run.h. So it holds for any model, and there is no second description of
// one.

// The parameters that Model(params, config) asks for, as shapes without values.
template <class Model, class Config>
Params shapes_of(const Config& config) {
  const DryRun dry;
  Params params = Params::shapes_only();
  const Model model(params, config);
  return params;
}

// Bytes of tensors that training holds, by kind, and all of them at the peak. Activations go while
// gradients come, so that `total` is less than the sum.
struct StepMemory {
  double weights = 0;  // and buffers
  double gradients = 0;
  double optimizer = 0;   // its tensors for all parameters
  double most_uncut = 0;  // of these, the most for one parameter that one process updates alone
  double averages = 0;  // of the weights that are trained, if a run keeps them (--ema, --swa-start)
  double activations = 0;  // with the scratch memory of the forward pass, at its peak
  double total = 0;

  // For processes that share what they train: of which each sends gradients away as they come.
  // At the peak of forward and backward, beside weights: all but gradients that are complete.
  double passes = 0;
  // The same where those of no block are kept until backward ends, and then copied.
  double passes_by_blocks = 0;
  double updating = 0;  // in an update, beside weights, gradients and the optimiser's tensors
  // Of what is trained, the blocks (block_of in module_names.h), and the largest one.
  double blocks = 0, largest_block = 0;
  double elsewhere = 0;  // weights that other processes alone have during a step
};

// Fills in `blocks` and `largest_block`.
void measure_blocks(StepMemory& memory, const NamedTensors& parameters);

// Bytes that an optimiser keeps, from the first step to the last: see StepMemory.
struct KeptBytes {
  double all = 0, most_uncut = 0;
};
using BytesKept = std::function<KeptBytes(const NamedTensors& parameters)>;
// Makes an optimiser and one step of it, by the gradients that the parameters have.
using Update = std::function<void(const NamedTensors& parameters)>;

namespace detail {
StepMemory measure(DryRun& dry, const Params& params, const std::function<Tensor()>& loss,
                   const BytesKept& kept, const Update& update);
}

// The memory of a training step in f32, but for scratch memory of threads:
//
//   measure_step([&](const Params& p) { return GPT(p, config); },
//                [&](const GPT& gpt) { return gpt.loss(ids, targets, &rng); });
//
// The first function makes the model, the second the loss of one batch. Batches made before the
// call do not count. The contents of ids do not matter. Without `kept`, the optimiser keeps
// nothing; without `update`, an update needs no memory beside what is kept. `make_params` makes the
// store of parameters, in which quantised matrices count as weights: a store of a source reads
// nothing here.
template <class MakeModel, class LossOf>
StepMemory measure_step(const std::function<Params()>& make_params, const MakeModel& make_model,
                        const LossOf& loss_of, const BytesKept& kept = {},
                        const Update& update = {}) {
  DryRun dry;
  const Params params = make_params();
  const auto model = make_model(params);
  return detail::measure(
      dry, params, [&] { return loss_of(model); }, kept, update);
}
// The same for a store of shapes.
template <class MakeModel, class LossOf>
StepMemory measure_step(const MakeModel& make_model, const LossOf& loss_of,
                        Precision precision = Precision::full, const BytesKept& kept = {},
                        const Update& update = {}) {
  return measure_step([=] { return Params::shapes_only(DType::f32, precision); }, make_model,
                      loss_of, kept, update);
}

}  // namespace tapegrad::nn
