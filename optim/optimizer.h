#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::optim {

// How the update of one parameter may be cut, so that several processes share it.
enum class ShardGranularity {
  elements,  // anywhere: each element is updated by itself
  rows,      // between rows, the slices along the first dimension
  whole,     // nowhere: one process updates all of it
};

// A tensor that an optimiser keeps for a parameter, of the parameter's dtype, 0 at first. In a
// checkpoint it is "<name>.<name of the parameter>".
struct StateSpec {
  std::string name;  // "exp_avg"
  Shape shape;
};

// The numbers that hold for one parameter in one step.
struct UpdateFactors {
  double lr;            // the step's learning rate times the scale of the parameter's group
  double weight_decay;  // of the group, in this step
  double grad_factor;   // gradients count so many times: clipping
  std::int64_t step;    // counted from 1
  // Decay only where update and weight have the same sign: only if decays_cautiously().
  bool cautious_decay = false;
};

// The target of an update: a parameter, or the part of it that one process has.
struct UpdatedPart {
  std::string_view name;  // of the parameter, if this is all of it
  Tensor parameter;
  Tensor gradient;         // of the same shape
  std::span<Tensor> kept;  // in the order of Optimizer::keeps
};

// An optimiser as a part: the rule that updates one parameter. It holds options only; an
// OptimizerState (optimizer_state.h) holds the tensors that it keeps. To add an optimiser, write
// one file, optimizers/NAME.cpp with a function NAME_row() (sgd.cpp is short); CMake finds it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;   // "adamw": in options, config.json, checkpoints
  virtual std::string_view title() const = 0;  // "AdamW": for people

  // The tensors that it keeps for a parameter of that shape, or for a part of one: of a part that
  // was cut at `elements` or `rows`, each tensor is the same part of the whole one.
  virtual std::vector<StateSpec> keeps(const Shape& shape) const = 0;
  virtual ShardGranularity cut(const Shape& shape) const = 0;
  // True if it is made for such a parameter. Others are the run's, or AdamW's.
  virtual bool suits(const std::string& /*name*/, const Shape&) const { return true; }
  // Steps after which an update does the same work again. A mean time is that of whole periods.
  virtual std::int64_t period() const { return 1; }
  // True if it knows UpdateFactors::cautious_decay.
  virtual bool decays_cautiously() const { return false; }

  // Makes one step. A part has the parameter's shape (ShardGranularity::whole), fewer rows of it,
  // or one dimension (ShardGranularity::elements). Loops are parallel_for's, products are gemm's,
  // and what it needs beside is in tensors: then the dry run that estimates the memory of training
  // sees it, too.
  virtual void update(UpdatedPart& part, const UpdateFactors& factors) const = 0;
};

}  // namespace tapegrad::optim
