// The checkpoints of LocalStepsSync: what each rank's optimiser keeps, and the weights of each
// between two meetings, are rows of tensors (R, …). The anchor is not among them: it is the model.
// Buffers, which all ranks have alike, are there between two meetings.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/optimizer_state.h"
#include "tapegrad/optim/processes/internal/gathered.h"
#include "tapegrad/optim/processes/internal/local_steps_sync.h"

namespace tapegrad::optim {
namespace {

// Keys of the metadata, and the beginnings of names.
const std::string kRanks = "local_steps.ranks", kSteps = "local_steps.steps",
                  kMade = "local_steps.made";
const std::string kWeights = "local_weights.", kBuffers = "local_buffers.",
                  kMomentum = "outer_momentum.";

std::int64_t number_in(const TensorSource& file, const std::string& key) {
  const auto it = file.metadata().find(key);
  check(it != file.metadata().end(),
        "{}: the run has made no local steps so far, and they cannot begin when it is resumed",
        file.name());
  const auto number = number_of<std::int64_t>(it->second);
  check(number && *number >= 0, "{}: {} is '{}', not a number from 0 on", file.name(), key,
        it->second);
  return *number;
}

}  // namespace

std::vector<Fragment> LocalStepsSync::fragments_of(std::size_t parameter) const {
  std::vector<Fragment> fragments;
  for (const Bucket& bucket : buckets_) {
    for (const Fragment& f : bucket.fragments) {
      if (f.parameter == parameter) fragments.push_back(f);
    }
  }
  return fragments;
}

// The outer momentum of a parameter, on rank 0.
Tensor LocalStepsSync::gather_momentum(std::size_t parameter) const {
  std::vector<float> part;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const Fragment& f : buckets_[b].fragments) {
      if (f.parameter != parameter || f.owner != rank()) continue;
      const float* from = momentum_[b].data<float>() + own_place(buckets_[b], f);
      part.insert(part.end(), from, from + f.size());
    }
  }
  const Shape& shape = parameters_[parameter].second.shape();
  return gather_fragments(processes_, fragments_of(parameter), shape.numel(), part, shape);
}

// The tensors of all groups side by side, on rank 0. The first member of each group has its own;
// others send nothing, but all begin as many exchanges.
Tensor LocalStepsSync::gather_groups(const Tensor& own) const {
  if (member() == 0) return gather_ranks(across(), own);
  across()->gather_parts({}, {}, std::vector<std::size_t>(static_cast<std::size_t>(group_count())));
  return {};
}

void LocalStepsSync::save(const std::string& path, Metadata metadata,
                          const NamedTensors& beside) const {
  std::vector<TensorToMake> tensors;
  const auto add_rows = [&](const TensorToMake& own) {
    tensors.push_back({own.name, own.shape.inserted(0, group_count()),
                       [this, make = own.make] { return gather_groups(make()); }});
  };
  const PlainUpdates::Kept kept = own_->kept();
  for (const TensorToMake& t : kept.tensors) add_rows(t);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto& [name, parameter] = parameters_[p];
    const Tensor weights = parameter.detach();
    if (made_ > 0) add_rows({kWeights + name, weights.shape(), [weights] { return weights; }});
    tensors.push_back(
        {kMomentum + name, parameter.shape(), [this, p] { return gather_momentum(p); }});
  }
  for (const auto& [name, t] : buffers_) {
    if (made_ > 0) add_whole(tensors, {{kBuffers + name, t}});
  }
  add_whole(tensors, beside);
  metadata.insert(kept.metadata.begin(), kept.metadata.end());
  metadata[kRanks] = std::to_string(group_count());
  metadata[kSteps] = std::to_string(local_.steps);
  metadata[kMade] = std::to_string(made_);
  if (rank() == 0) return save_safetensors(path, tensors, stored_type(DType::f32), metadata);
  for (const TensorToMake& tensor : tensors) tensor.make();
}

// The steps since the last meeting that a file's metadata has.
std::int64_t LocalStepsSync::made_in(const TensorSource& file) const {
  const std::int64_t found = number_in(file, kRanks), steps = number_in(file, kSteps),
                     made = number_in(file, kMade);
  check(found == group_count(),
        "{}: it has the weights and moments of {} process{}, which made local steps: {} must go "
        "on with them, not {}",
        file.name(), found, found == 1 ? "" : "es",
        found == 1 ? "one process" : fmt::format("mpirun -n {}", found), group_count());
  check(steps == local_.steps, "{}: its processes meet every {} steps, and not every {}",
        file.name(), steps, local_.steps);
  check(made < steps, "{}: {} is {}, not below {}", file.name(), kMade, made, steps);
  return made;
}

void LocalStepsSync::load(const TensorSource& file) {
  OptimizerState::steps_in(file, *groups_.main);  // it knows a file of another optimiser
  const std::int64_t made = made_in(file);
  std::map<std::string, Shape> rows, shapes;  // of each rank, and in the file
  const PlainUpdates::Kept expected = own_->kept();
  for (const TensorToMake& t : expected.tensors) rows[t.name] = t.shape;
  for (const auto& [name, t] : parameters_) {
    if (made > 0) rows[kWeights + name] = t.shape();
    shapes[kMomentum + name] = t.shape();
  }
  for (const auto& [name, shape] : rows) shapes[name] = shape.inserted(0, group_count());
  for (const auto& [name, t] : buffers_) {
    if (made > 0) shapes[kBuffers + name] = t.shape();
  }
  std::set<std::string> names;
  for (const auto& [name, shape] : shapes) names.insert(name);
  OptimizerState::check_names(file, names);
  for (const auto& [name, shape] : shapes)
    OptimizerState::check_entry(file, name, shape, DType::f32);
  const auto own_row = [&](const std::string& name) {
    return file.read(name).rows(group(), group() + 1).view(rows.at(name)).clone();
  };

  std::map<std::string, Tensor> kept;
  for (const TensorToMake& t : expected.tensors) kept[t.name] = own_row(t.name);
  own_->load(*memory_source(std::move(kept), file.name(), file.metadata()));
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    auto& [name, parameter] = parameters_[p];
    if (made > 0) {
      const Tensor own = own_row(kWeights + name);
      std::copy_n(own.data<float>(), own.numel(), parameter.mutable_data<float>());
    }
    const Tensor momentum = file.read(kMomentum + name);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const Fragment& f : buckets_[b].fragments) {
        if (f.parameter != p || f.owner != rank()) continue;
        std::copy_n(momentum.data<float>() + f.begin, f.size(),
                    momentum_[b].mutable_data<float>() + own_place(buckets_[b], f));
      }
    }
  }
  for (auto& [name, buffer] : buffers_) {
    if (made == 0) continue;  // the model has them
    const Tensor own = file.read(kBuffers + name);
    std::copy_n(own.data<float>(), own.numel(), buffer.mutable_data<float>());
  }
  made_ = made;
}

std::string LocalStepsSync::broken_tensor() const {
  std::string own = own_->broken_tensor();
  for (std::size_t b = 0; b < momentum_.size() && own.empty(); ++b) {
    if (!all_finite(momentum_[b])) own = "outer_momentum";
  }
  if (processes_ == nullptr) return own;
  for (const std::string& name : processes_->all_gather(own)) {
    if (!name.empty()) return name;
  }
  return {};
}

}  // namespace tapegrad::optim
