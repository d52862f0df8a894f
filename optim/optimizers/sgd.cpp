#include "tapegrad/optim/optimizers/sgd.h"

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

class SGDRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "sgd";
  using Options = SGDOptions;

  explicit SGDRule(const SGDOptions& options) : options_(options) {
    check_numbers("SGDOptions", {{"momentum", options.momentum, from_to_below(0, 1)},
                                 {"weight_decay", options.weight_decay, at_least(0)}});
    check(!options.nesterov || options.momentum > 0, "nesterov needs a momentum above 0");
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "SGD"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    if (options_.momentum == 0) return {};
    return {{"momentum_buffer", shape}};
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T rate = static_cast<T>(f.lr), decay = static_cast<T>(f.weight_decay);
      const T factor = static_cast<T>(f.grad_factor), momentum = static_cast<T>(options_.momentum);
      const bool nesterov = options_.nesterov;
      T* p = part.parameter.mutable_data<T>();
      const T* g = part.gradient.data<T>();
      T* b = part.kept.empty() ? nullptr : part.kept[0].mutable_data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        if (b == nullptr) {
          for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * (factor * g[i] + decay * p[i]);
          return;
        }
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = factor * g[i] + decay * p[i];
          b[i] = momentum * b[i] + gradient;
          p[i] -= rate * (nesterov ? gradient + momentum * b[i] : b[i]);
        }
      });
    });
  }

 private:
  SGDOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const SGDOptions& o) {
  return make_groups(parameters, std::make_shared<SGDRule>(o), o.weight_decay, true);
}

}  // namespace

SGD::SGD(NamedTensors parameters, const SGDOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> sgd_row() { return std::make_unique<EntryOf<SGDRule>>(); }

}  // namespace tapegrad::optim
