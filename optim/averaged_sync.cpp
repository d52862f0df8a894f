#include "tapegrad/optim/internal/averaged_sync.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/optim/internal/without_tensors.h"
#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {
namespace {

const std::string kWeights = "training_weights.";

class AveragedSync : public GradientSync {
 public:
  AveragedSync(std::unique_ptr<GradientSync> sync, const NamedTensors& parameters,
               const EMAOptions& options)
      : sync_(std::move(sync)), parameters_(parameters), ema_(parameters, options) {}

  void round(int active, const Backward& backward) override { sync_->round(active, backward); }
  Clipping measure_clipping(double max_norm) override { return sync_->measure_clipping(max_norm); }
  std::vector<GradientPart> gradients() const override { return sync_->gradients(); }
  void step(double lr, double grad_factor, double decay_factor) override {
    sync_->step(lr, grad_factor, decay_factor);
    ema_.update();
  }
  void zero_grad() override { sync_->zero_grad(); }
  void gather_parameters() override { sync_->gather_parameters(); }
  std::int64_t steps() const override { return sync_->steps(); }
  const ParameterGroups& groups() const override { return sync_->groups(); }
  NamedTensors agreed(NamedTensors tensors) const override;
  void swap_agreed() override {
    ema_.swap();
    swapped_ = !swapped_;
  }
  void restart() override { ema_.copy_to_parameters(); }
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override;
  void load(const TensorSource& file) override;
  std::string broken_tensor() const override {
    const std::string broken = sync_->broken_tensor();
    return broken.empty() ? tapegrad::broken_tensor(ema_.state()) : broken;
  }

 private:
  const NamedTensors& own() const { return swapped_ ? ema_.averages() : parameters_; }
  const NamedTensors& averages() const { return swapped_ ? parameters_ : ema_.averages(); }

  const std::unique_ptr<GradientSync> sync_;
  const NamedTensors parameters_;
  EMA ema_;
  bool swapped_ = false;
};

NamedTensors AveragedSync::agreed(NamedTensors tensors) const {
  std::map<std::string, Tensor> averages;
  for (const auto& [name, t] : this->averages()) averages.emplace(name, t);
  for (auto& [name, t] : tensors) {
    if (const auto it = averages.find(name); it != averages.end()) t = it->second;
  }
  return tensors;
}

void AveragedSync::save(const std::string& path, Metadata metadata,
                        const NamedTensors& beside) const {
  NamedTensors more = beside;
  for (const auto& [name, t] : own()) more.emplace_back(kWeights + name, t);
  metadata.merge(ema_.metadata());
  sync_->save(path, std::move(metadata), more);
}

void AveragedSync::load(const TensorSource& file) {
  std::map<std::string, Tensor> averages;
  for (const auto& [name, average] : ema_.state()) averages.emplace(name, average);
  ema_.load_state(*memory_source(std::move(averages), file.name(), file.metadata()));
  for (const auto& [name, t] : parameters_)
    OptimizerState::check_entry(file, kWeights + name, t.shape(), t.dtype());
  sync_->load(WithoutTensors(file, kWeights, parameters_));
  for (const auto& [name, t] : parameters_) {
    const Tensor own = file.read(kWeights + name);
    Tensor parameter = t;
    dispatch(t.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::memcpy(parameter.mutable_data<T>(), own.data<T>(), own.bytes());
    });
  }
}

}  // namespace

std::unique_ptr<GradientSync> with_averages(std::unique_ptr<GradientSync> sync,
                                            const NamedTensors& parameters,
                                            const EMAOptions& options) {
  return std::make_unique<AveragedSync>(std::move(sync), parameters, options);
}

}  // namespace tapegrad::optim
