// The checkpoints of SharedUpdates: whole tensors, whatever the number of processes.

#include <algorithm>
#include <utility>

#include "tapegrad/autograd/finite.h"
#include "tapegrad/optim/shared_updates.h"

namespace tapegrad::optim {
namespace {

const std::string kMoments[] = {"exp_avg.", "exp_avg_sq."};

}  // namespace

// Moment `moment` of all of a parameter, on rank 0; on others an undefined tensor.
Tensor SharedUpdates::gather(std::size_t parameter, std::size_t moment) const {
  const NamedTensors state = adamw_.state();  // both moments of each slice
  std::vector<float> part;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (at(own_[i]).parameter != parameter) continue;
    const auto values = state[2 * i + moment].second.values<float>();
    part.insert(part.end(), values.begin(), values.end());
  }
  // By owner, in the order of the buckets: so each rank's part is ordered.
  std::vector<Fragment> fragments;
  std::vector<std::size_t> sizes(static_cast<std::size_t>(processes_.size()));
  for (const Place place : places_[parameter]) fragments.push_back(at(place));
  std::stable_sort(fragments.begin(), fragments.end(),
                   [](const Fragment& a, const Fragment& b) { return a.owner < b.owner; });
  for (const Fragment& f : fragments) {
    sizes[static_cast<std::size_t>(f.owner)] += static_cast<std::size_t>(f.size()) * sizeof(float);
  }
  const Tensor& like = parameters_[parameter].second;
  std::vector<float> parts(rank() == 0 ? static_cast<std::size_t>(like.numel()) : 0);
  processes_.gather_parts(std::as_bytes(std::span(part)), std::as_writable_bytes(std::span(parts)),
                          sizes);
  if (rank() != 0) return {};
  Tensor whole = Tensor::empty(like.shape());
  float* to = whole.mutable_data<float>();
  const float* from = parts.data();
  for (const Fragment& f : fragments) {
    std::copy(from, from + f.size(), to + f.begin);
    from += f.size();
  }
  return whole;
}

void SharedUpdates::save(const std::string& path, Metadata metadata) const {
  std::vector<TensorToMake> tensors;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (std::size_t m = 0; m < std::size(kMoments); ++m) {
      tensors.push_back({kMoments[m] + parameters_[p].first, parameters_[p].second.shape(),
                         [this, p, m] { return gather(p, m); }});
    }
  }
  metadata.merge(adamw_.metadata());
  if (rank() == 0) return save_safetensors(path, tensors, "F32", metadata);
  for (const TensorToMake& tensor : tensors) tensor.make();
}

void SharedUpdates::load(const TensorSource& file) {
  std::map<std::string, Tensor> slices;
  for (const std::string& moment : kMoments) {
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const auto& [name, parameter] = parameters_[p];
      AdamW::check_entry(file, moment + name, parameter);
      const Tensor whole = file.read(moment + name).view({parameter.numel()});
      for (std::size_t i = 0; i < own_.size(); ++i) {
        const Fragment& f = at(own_[i]);
        if (f.parameter != p) continue;
        slices[moment + slices_[i].first] =
            whole.rows(f.begin, f.end).view(slices_[i].second.shape()).clone();
      }
    }
  }
  adamw_.load_state(*memory_source(std::move(slices), file.name(), file.metadata()));
}

std::string SharedUpdates::broken_tensor() const {
  for (const std::string& name : processes_.all_gather(tapegrad::broken_tensor(adamw_.state()))) {
    if (!name.empty()) return name;
  }
  return {};
}

}  // namespace tapegrad::optim
