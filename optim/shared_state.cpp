// The checkpoints of SharedGradientSync: whole tensors, whatever the number of processes.

#include <algorithm>
#include <utility>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/optim/internal/shared_gradient_sync.h"

namespace tapegrad::optim {
namespace {

// The kept part of a fragment: as many elements of a tensor with `kept` elements as the fragment is
// of its parameter.
struct KeptPart {
  std::int64_t begin, size;
};
KeptPart part_of(const Fragment& f, std::int64_t kept, std::int64_t elements) {
  const std::int64_t begin = kept * f.begin / elements;
  return {begin, kept * f.end / elements - begin};
}

}  // namespace

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
  // Sorted by owner, in the order of the buckets, so that each rank's part is in order.
  std::vector<Fragment> fragments;
  std::vector<std::size_t> sizes(static_cast<std::size_t>(processes_.size()));
  for (const Place place : places_[parameter]) fragments.push_back(at(place));
  std::stable_sort(fragments.begin(), fragments.end(),
                   [](const Fragment& a, const Fragment& b) { return a.owner < b.owner; });
  const std::int64_t elements = parameters_[parameter].second.numel();
  for (const Fragment& f : fragments) {
    const std::int64_t size = part_of(f, shape.numel(), elements).size;
    sizes[static_cast<std::size_t>(f.owner)] += static_cast<std::size_t>(size) * sizeof(float);
  }
  std::vector<float> parts(rank() == 0 ? static_cast<std::size_t>(shape.numel()) : 0);
  processes_.gather_parts(std::as_bytes(std::span(part)), std::as_writable_bytes(std::span(parts)),
                          sizes);
  if (rank() != 0) return {};
  Tensor whole = Tensor::empty(shape);
  float* to = whole.mutable_data<float>();
  const float* from = parts.data();
  for (const Fragment& f : fragments) {
    const KeptPart kept = part_of(f, shape.numel(), elements);
    std::copy(from, from + kept.size, to + kept.begin);
    from += kept.size;
  }
  return whole;
}

void SharedGradientSync::save(const std::string& path, Metadata metadata) const {
  std::vector<TensorToMake> tensors;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const std::vector<StateSpec> kept = kept_of(p);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      tensors.push_back({kept[k].name + "." + parameters_[p].first, kept[k].shape,
                         [this, p, k, shape = kept[k].shape] { return gather(p, k, shape); }});
    }
  }
  metadata.merge(state_.metadata());
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
