#include "tapegrad/optim/optimizer_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::optim {
namespace {

// Far more than any run makes; the count of a file must leave room to go on counting.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
constexpr std::string_view kSteps = ".steps";

std::string step_key(const Optimizer& main) {
  return std::string(main.name()) + std::string(kSteps);
}

// The optimiser of the list that the file is of; empty if it does not say.
std::string owner_of(const TensorSource& file) {
  for (const std::string_view name : names_of(OptimizerId{})) {
    if (file.metadata().count(std::string(name) + std::string(kSteps)) > 0)
      return std::string(name);
  }
  return {};
}

}  // namespace

OptimizerState::OptimizerState(NamedTensors tensors, ParameterGroups groups)
    : groups_(std::move(groups)) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i].second;
    Slot slot{tensors[i].first, t, {}};
    for (const StateSpec& kept : group_of(i).optimizer->keeps(t.shape())) {
      slot.kept.push_back(Tensor::zeros(kept.shape, t.dtype()));
    }
    slots_.push_back(std::move(slot));
  }
}

void OptimizerState::step(double lr, double grad_factor, double decay_factor) {
  check(std::any_of(slots_.begin(), slots_.end(),
                    [](const Slot& slot) { return slot.tensor.grad().defined(); }),
        "{}::step: none of {} parameters has a gradient; tape.backward(loss) comes first",
        groups_.main->title(), slots_.size());
  step_part(lr, grad_factor, decay_factor, [](std::size_t) {});
}

void OptimizerState::step_part(double lr, double grad_factor, double decay_factor,
                               const std::function<void(std::size_t)>& updated) {
  ++steps_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const Tensor grad = slot.tensor.grad();
    if (grad.defined()) {
      const ParameterGroup& group = group_of(i);
      UpdatedPart part{slot.name, slot.tensor, grad, slot.kept};
      group.optimizer->update(part, {.lr = lr * group.lr_scale,
                                     .weight_decay = decay_factor * group.weight_decay,
                                     .grad_factor = grad_factor,
                                     .step = steps_,
                                     .cautious_decay = group.cautious_decay});
    }
    updated(i);
  }
}

void OptimizerState::zero_grad() {
  for (Slot& slot : slots_) slot.tensor.zero_grad();
}

// Calls visit(name, tensor) with all that is kept.
template <class Visit>
void OptimizerState::visit_kept(std::vector<Slot>& slots, const Visit& visit) const {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::vector<StateSpec> names = group_of(i).optimizer->keeps(slots[i].tensor.shape());
    for (std::size_t k = 0; k < names.size(); ++k) {
      visit(names[k].name + "." + slots[i].name, slots[i].kept[k]);
    }
  }
}

NamedTensors OptimizerState::state() const {
  NamedTensors state;
  std::vector<Slot> slots = slots_;
  visit_kept(slots, [&](const std::string& name, const Tensor& t) { state.emplace_back(name, t); });
  return state;
}

Metadata OptimizerState::metadata() const {
  return {{step_key(*groups_.main), std::to_string(steps_)}};
}

void OptimizerState::check_entry(const TensorSource& file, const std::string& name,
                                 const Shape& shape, DType dtype) {
  const TensorSource::Entry& stored = file.at(name);
  check(stored.shape == shape && stored.dtype == dtype,
        "{}: '{}' is {} {}, but the model needs {} {}", file.name(), name, stored.shape,
        tapegrad::name_of(stored.dtype), shape, tapegrad::name_of(dtype));
}

void OptimizerState::check_names(const TensorSource& file, const std::set<std::string>& names) {
  constexpr std::string_view why =
      "options that decide what an optimiser keeps cannot change when a run is resumed";
  const auto kind_of = [](const std::string& name) { return name.substr(0, name.find('.')); };
  std::set<std::string> stored, kinds;
  for (const auto& [name, entry] : file.entries()) stored.insert(kind_of(name));
  for (const std::string& name : names) kinds.insert(kind_of(name));
  for (const std::string& kind : kinds) {
    check(stored.count(kind) > 0,
          "{}: it has no {}, which the optimiser keeps with these options: {}", file.name(), kind,
          why);
  }
  for (const std::string& kind : stored) {
    check(kinds.count(kind) > 0,
          "{}: it has {}, which the optimiser does not keep with these options: {}", file.name(),
          kind, why);
  }
  for (const auto& [name, entry] : file.entries()) {
    check(names.count(name) > 0, "{}: it has '{}', but no parameter that is trained has this name",
          file.name(), name);
  }
}

std::int64_t OptimizerState::steps_in(const TensorSource& file, const Optimizer& main) {
  const std::string key = step_key(main), owner = owner_of(file);
  const auto it = file.metadata().find(key);
  check(it != file.metadata().end() || owner.empty(),
        "{}: this is the state of the optimiser {}, and not of {}", file.name(), owner,
        main.name());
  check(it != file.metadata().end(), "{}: the metadata has no {}", file.name(), key);
  const std::optional<std::int64_t> steps = number_of<std::int64_t>(it->second);
  check(steps && *steps >= 0 && *steps <= kMostSteps, "{}: {} is '{}', not a number from 0 to {}",
        file.name(), key, it->second, kMostSteps);
  return *steps;
}

void OptimizerState::load_state(const TensorSource& file) {
  const std::int64_t steps = steps_in(file, *groups_.main);
  std::vector<Slot> loaded = slots_;
  std::set<std::string> names;
  visit_kept(loaded, [&](const std::string& name, const Tensor&) { names.insert(name); });
  check_names(file, names);
  visit_kept(loaded, [&](const std::string& name, Tensor& t) {
    check_entry(file, name, t.shape(), t.dtype());
    t = file.read(name);
  });
  slots_ = std::move(loaded);
  steps_ = steps;
}

}  // namespace tapegrad::optim
