#include "tapegrad/optim/gradient_sync.h"

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/optim/internal/plain_updates.h"
#include "tapegrad/optim/meetings/internal/file_meetings.h"
#include "tapegrad/optim/optimizer_state.h"
#include "tapegrad/optim/processes/internal/local_steps_sync.h"
#include "tapegrad/optim/processes/internal/shared_gradient_sync.h"

namespace tapegrad::optim {
namespace {

class OwnUpdates : public PlainUpdates {
 public:
  OwnUpdates(const NamedTensors& parameters, const ParameterGroups& groups)
      : parameters_(parameters), groups_(groups), state_(parameters, groups) {}

  // Backward adds to grad() by itself.
  void round(int, const Backward& backward) override { backward({}); }
  Clipping measure_clipping(double max_norm) override {
    return optim::measure_clipping(parameters_, max_norm);
  }
  std::vector<GradientPart> gradients() const override {
    std::vector<GradientPart> parts;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Tensor gradient = parameters_[p].second.grad();
      if (gradient.defined()) parts.push_back({p, 0, gradient});
    }
    return parts;
  }
  void step(double lr, double grad_factor, double decay_factor) override {
    state_.step(lr, grad_factor, decay_factor);
  }
  void zero_grad() override { state_.zero_grad(); }
  std::int64_t steps() const override { return state_.steps(); }
  const ParameterGroups& groups() const override { return groups_; }
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override {
    metadata.merge(state_.metadata());
    NamedTensors tensors = state_.state();
    tensors.insert(tensors.end(), beside.begin(), beside.end());
    save_safetensors(path, tensors, metadata);
  }
  Kept kept() const override {
    Kept kept{{}, state_.metadata()};
    for (const auto& [name, t] : state_.state())
      kept.tensors.push_back({name, t.shape(), [t = t] { return t; }});
    return kept;
  }
  void load(const TensorSource& file) override { state_.load_state(file); }
  std::string broken_tensor() const override { return tapegrad::broken_tensor(state_.state()); }

 private:
  NamedTensors parameters_;
  ParameterGroups groups_;
  OptimizerState state_;
};

}  // namespace

std::unique_ptr<PlainUpdates> make_plain_updates(const NamedTensors& parameters,
                                                 const ParameterGroups& groups,
                                                 Processes* processes, CommDType sent,
                                                 Shard shard) {
  if (processes == nullptr || processes->alone())
    return std::make_unique<OwnUpdates>(parameters, groups);
  return std::make_unique<SharedGradientSync>(parameters, groups, *processes, sent, shard);
}

std::unique_ptr<GradientSync> make_gradient_sync(const NamedTensors& parameters,
                                                 const GroupRules& rules, Processes* processes,
                                                 const Sharing& sharing,
                                                 const NamedTensors& buffers) {
  return make_gradient_sync(parameters, make_groups(parameters, rules), processes, sharing,
                            buffers);
}

std::unique_ptr<GradientSync> make_gradient_sync(const NamedTensors& parameters,
                                                 const ParameterGroups& groups,
                                                 Processes* processes, const Sharing& sharing,
                                                 const NamedTensors& buffers) {
  const auto& [sent, shard, local] = sharing;
  if (processes != nullptr && processes->alone()) processes = nullptr;
  check(!local || shard != Shard::parameters,
        "processes that make local steps have weights of their own, and cannot share them");
  if (local && local->place) {
    if (!buffers.empty()) {
      fail(
          "'{}' changes in each step by the tokens of all processes, and groups that meet through "
          "files do not know those of others",
          buffers.front().first);
    }
    return meet_by_files(make_plain_updates(parameters, groups, processes, CommDType::f32, shard),
                         parameters, *local, processes, sent);
  }
  if (local) return make_local_steps(parameters, groups, *local, processes, sent, buffers, shard);
  check(sent != CommDType::int8, "int8 is for differences of weights, which local steps make");
  return make_plain_updates(parameters, groups, processes, sent, shard);
}

}  // namespace tapegrad::optim
