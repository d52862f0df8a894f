#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/optim/optimizer_list.h"

namespace tapegrad::optim {

// Parameters that are updated in the same way.
struct ParameterGroup {
  std::shared_ptr<const Optimizer> optimizer;
  double lr_scale = 1;          // times the step's learning rate
  double weight_decay = 0;      // its effect is the optimiser's own matter
  bool cautious_decay = false;  // see UpdateFactors
};

// All parameters of a model, in groups.
struct ParameterGroups {
  std::vector<ParameterGroup> groups;
  std::vector<std::size_t> group_of;  // of each parameter, an index in `groups`
  // The optimiser of the run, which may share parameters with others: a checkpoint has the number
  // of steps under its name.
  std::shared_ptr<const Optimizer> main;

  const ParameterGroup& of(std::size_t parameter) const { return groups[group_of[parameter]]; }
};

// True if it leaves some parameters, such as vectors, to others: see Optimizer::suits.
bool leaves_parameters(const Optimizer& optimizer);

// How groups are made. A rule is a text "PATTERN=X" for the parameters that PATTERN names, as in
// "wte*=0.5" (base/text/internal/name_pattern.h) or, by their kind, "matrices=X" (two dimensions or
// more) and "vectors=X" (fewer). Of rules that name the same parameter, the last one counts.
struct GroupRules {
  OptimizerId optimizer = {};
  OptimizerSettings settings = {};
  double weight_decay = 0.01;  // of matrices, as in nanoGPT: not of biases and norms
  bool decay_all = false;      // of vectors, too
  // Decay only where update and weight have the same sign (Chen et al., "Cautious Weight Decay",
  // arXiv 2510.12402, algorithm 1). Error with an optimiser that adds decay to the gradient.
  bool cautious_decay = false;
  std::vector<std::string> lr_scale = {};       // X: the scale of the learning rate
  std::vector<std::string> decay = {};          // X: the weight decay, whatever the dimensions
  std::vector<std::string> optimizer_for = {};  // X: the optimiser's name

  // All that may update parameters, once each, the one of the run first.
  std::vector<OptimizerId> used() const;
  // True if nothing but the optimiser's options and the decay is said.
  bool plain() const;
  void validate() const;  // Error, naming the option, for values that no model could have
};

// Groups that have a parameter at least, in the order of their first ones. Errors as
// GroupRules::validate; a pattern that names none of the parameters.
ParameterGroups make_groups(const NamedTensors& parameters, const GroupRules& rules);
// Two at most: `weight_decay` of matrices, or of all parameters, and none of the others.
ParameterGroups make_groups(const NamedTensors& parameters,
                            std::shared_ptr<const Optimizer> optimizer, double weight_decay,
                            bool decay_all);

// Bytes that the optimisers keep for all parameters.
double bytes_kept(const NamedTensors& parameters, const ParameterGroups& groups);
// The longest period of the optimisers: see Optimizer::period.
std::int64_t longest_period(const ParameterGroups& groups);
// Multiples of so many elements are where each parameter may be cut (see shares.h).
std::vector<std::int64_t> units_of(const NamedTensors& parameters, const ParameterGroups& groups);
// The numbers of the parameters of each block of a model (block_of in module_names.h), in the order
// of the first one of each. The last element has those of no block.
std::vector<std::vector<std::size_t>> blocks_of(const NamedTensors& parameters);

}  // namespace tapegrad::optim
