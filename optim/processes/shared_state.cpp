// The checkpoints of SharedGradientSync: whole tensors, whatever the number of processes.

#include <utility>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/optim/processes/internal/gathered.h"
#include "tapegrad/optim/processes/internal/shared_gradient_sync.h"

namespace tapegrad::optim {

std::vector<StateSpec> SharedGradientSync::kept_of(std::size_t parameter) const {
  return groups_.of(parameter).optimizer->keeps(parameters_[parameter].second.shape());
}

// The state for all of a parameter, the tensor of that index and shape, on rank 0; on others an
// undefined tensor.
Tensor SharedGradientSync::gather(std::size_t parameter, std::size_t index,
                                  const Shape& shape) const {
  std::vector<float> part;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (at(own_[i]).parameter != parameter) continue;
    const auto values = state_.kept(i)[index].values<float>();
    part.insert(part.end(), values.begin(), values.end());
  }
  std::vector<Fragment> fragments;
  for (const Place place : places_[parameter]) fragments.push_back(at(place));
  return gather_fragments(&processes_, fragments, parameters_[parameter].second.numel(), part,
                          shape);
}

PlainUpdates::Kept SharedGradientSync::kept() const {
  Kept all{{}, state_.metadata()};
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const std::vector<StateSpec> kept = kept_of(p);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      all.tensors.push_back({kept[k].name + "." + parameters_[p].first, kept[k].shape,
                             [this, p, k, shape = kept[k].shape] { return gather(p, k, shape); }});
    }
  }
  return all;
}

void SharedGradientSync::save(const std::string& path, Metadata metadata,
                              const NamedTensors& beside) const {
  auto [tensors, own_metadata] = kept();
  add_whole(tensors, beside);
  metadata.merge(own_metadata);
  if (rank() == 0) return save_safetensors(path, tensors, stored_type(DType::f32), metadata);
  for (const TensorToMake& tensor : tensors) tensor.make();
}

void SharedGradientSync::load(const TensorSource& file) {
  OptimizerState::steps_in(file,
                           *groups_.main);  // before tensors: it knows a file of another optimiser
  std::set<std::string> names;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (const StateSpec& kept : kept_of(p)) names.insert(kept.name + "." + parameters_[p].first);
  }
  OptimizerState::check_names(file, names);
  std::map<std::string, Tensor> slices;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto& [name, parameter] = parameters_[p];
    const std::vector<StateSpec> kept = kept_of(p);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      const std::string stored = kept[k].name + "." + name;
      OptimizerState::check_entry(file, stored, kept[k].shape, parameter.dtype());
      const Tensor whole = file.read(stored).view({kept[k].shape.numel()});
      for (std::size_t i = 0; i < own_.size(); ++i) {
        if (at(own_[i]).parameter != p) continue;
        const auto [begin, size] = part_of(at(own_[i]), whole.numel(), parameter.numel());
        slices[kept[k].name + "." + slices_[i].first] =
            whole.rows(begin, begin + size).view(state_.kept(i)[k].shape()).clone();
      }
    }
  }
  state_.load_state(*memory_source(std::move(slices), file.name(), file.metadata()));
}

std::string SharedGradientSync::broken_tensor() const {
  for (const std::string& name : processes_.all_gather(tapegrad::broken_tensor(state_.state()))) {
    if (!name.empty()) return name;
  }
  return {};
}

}  // namespace tapegrad::optim
