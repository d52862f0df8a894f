#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/optim/parameter_groups.h"

namespace tapegrad::optim {

// The one loop that makes the steps of any optimiser: tensors, which are parameters or parts of
// them, and what their optimisers keep for each.
class OptimizerState {
 public:
  // groups.group_of is of these tensors.
  OptimizerState(NamedTensors tensors, ParameterGroups groups);

  // Updates all tensors that have a gradient, with learning rate lr times the scale of their
  // group and the weight decay of the group times decay_factor. All gradients are multiplied by
  // grad_factor first (see measure_clipping). Error if no tensor has a gradient: backward() was
  // forgotten, or reached none of them.
  void step(double lr, double grad_factor = 1, double decay_factor = 1);
  // step() without that error, for an object that has a part of the parameters only: others may
  // have the gradients. Calls updated(i) after tensor i.
  void step_part(double lr, double grad_factor, double decay_factor,
                 const std::function<void(std::size_t)>& updated);
  void zero_grad();
  // Calls of step(). An optimiser counts them for all parameters; PyTorch differs there: it counts,
  // for each parameter, the steps at which that parameter had a gradient.
  std::int64_t steps() const { return steps_; }

  // For a checkpoint: what is kept, as "<what>.<name>", and the number of steps as metadata.
  NamedTensors state() const;
  Metadata metadata() const;
  // Error, naming file and tensor, if one is missing or does not have its shape and dtype; then
  // nothing is changed.
  void load_state(const TensorSource& file);

  // The tensors kept for tensor i, in the order of Optimizer::keeps.
  std::span<const Tensor> kept(std::size_t i) const { return slots_[i].kept; }
  // Parts of load_state()'s errors: what a tensor's entry in the file decides, and what the number
  // of steps does, which is returned.
  static void check_entry(const TensorSource& file, const std::string& name, const Shape& shape,
                          DType dtype);
  static std::int64_t steps_in(const TensorSource& file, const Optimizer& main);
  // Error unless the file has the kinds of tensors that these names begin with, such as exp_avg, no
  // others, and no tensor of another name.
  static void check_names(const TensorSource& file, const std::set<std::string>& names);

 private:
  struct Slot {
    std::string name;
    Tensor tensor;
    std::vector<Tensor> kept;
  };
  const ParameterGroup& group_of(std::size_t i) const { return groups_.of(i); }
  template <class Visit>
  void visit_kept(std::vector<Slot>& slots, const Visit& visit) const;

  std::vector<Slot> slots_;
  ParameterGroups groups_;
  std::int64_t steps_ = 0;
};

}  // namespace tapegrad::optim
