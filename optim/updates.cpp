#include "tapegrad/optim/updates.h"

#include "tapegrad/autograd/finite.h"
#include "tapegrad/optim/shared_updates.h"
#include "tapegrad/optim/stepper.h"

namespace tapegrad::optim {
namespace {

class OwnUpdates : public Updates {
 public:
  OwnUpdates(const NamedTensors& parameters, const ParameterGroups& groups)
      : parameters_(parameters), groups_(groups), stepper_(parameters, groups) {}

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
  void step(double lr, double grad_factor) override { stepper_.step(lr, grad_factor); }
  void zero_grad() override { stepper_.zero_grad(); }
  std::int64_t steps() const override { return stepper_.steps(); }
  const ParameterGroups& groups() const override { return groups_; }
  void save(const std::string& path, Metadata metadata) const override {
    metadata.merge(stepper_.metadata());
    save_safetensors(path, stepper_.state(), metadata);
  }
  void load(const TensorSource& file) override { stepper_.load_state(file); }
  std::string broken_tensor() const override { return tapegrad::broken_tensor(stepper_.state()); }

 private:
  NamedTensors parameters_;
  ParameterGroups groups_;
  Stepper stepper_;
};

}  // namespace

std::unique_ptr<Updates> make_updates(const NamedTensors& parameters, const GroupRules& rules,
                                      Processes* processes, Precision sent) {
  return make_updates(parameters, make_groups(parameters, rules), processes, sent);
}

std::unique_ptr<Updates> make_updates(const NamedTensors& parameters, const ParameterGroups& groups,
                                      Processes* processes, Precision sent) {
  if (processes == nullptr || processes->alone())
    return std::make_unique<OwnUpdates>(parameters, groups);
  return std::make_unique<SharedUpdates>(parameters, groups, *processes, sent);
}

}  // namespace tapegrad::optim
