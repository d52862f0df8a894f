#include "tapegrad/optim/updates.h"

#include "tapegrad/autograd/finite.h"
#include "tapegrad/optim/shared_updates.h"

namespace tapegrad::optim {
namespace {

class OwnUpdates : public Updates {
 public:
  OwnUpdates(const NamedTensors& parameters, const AdamWOptions& options)
      : parameters_(parameters), adamw_(parameters, options) {}

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
  void step(double lr, double grad_factor) override { adamw_.step(lr, grad_factor); }
  void zero_grad() override { adamw_.zero_grad(); }
  std::int64_t steps() const override { return adamw_.steps(); }
  void save(const std::string& path, Metadata metadata) const override {
    metadata.merge(adamw_.metadata());
    save_safetensors(path, adamw_.state(), metadata);
  }
  void load(const TensorSource& file) override { adamw_.load_state(file); }
  std::string broken_tensor() const override { return tapegrad::broken_tensor(adamw_.state()); }

 private:
  NamedTensors parameters_;
  AdamW adamw_;
};

}  // namespace

std::unique_ptr<Updates> make_updates(const NamedTensors& parameters, const AdamWOptions& options,
                                      Processes* processes, Precision sent) {
  if (processes == nullptr || processes->alone())
    return std::make_unique<OwnUpdates>(parameters, options);
  return std::make_unique<SharedUpdates>(parameters, options, *processes, sent);
}

}  // namespace tapegrad::optim
