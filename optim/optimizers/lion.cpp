#include "tapegrad/optim/optimizers/lion.h"

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

class LionRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "lion";
  using Options = LionOptions;

  explicit LionRule(const LionOptions& options) : options_(options) {
    check_numbers("LionOptions", {{"beta1", options.beta1, from_to_below(0, 1)},
                                  {"beta2", options.beta2, from_to_below(0, 1)},
                                  {"weight_decay", options.weight_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "Lion"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override { return {{"exp_avg", shape}}; }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  bool decays_cautiously() const override { return true; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T rate = static_cast<T>(f.lr), keep = static_cast<T>(1 - f.lr * f.weight_decay);
      const T factor = static_cast<T>(f.grad_factor);
      const T beta1 = static_cast<T>(options_.beta1),
              one_minus_beta1 = static_cast<T>(1 - options_.beta1);
      const T beta2 = static_cast<T>(options_.beta2),
              one_minus_beta2 = static_cast<T>(1 - options_.beta2);
      const bool cautious = f.cautious_decay;
      T* p = part.parameter.mutable_data<T>();
      T* m = part.kept[0].mutable_data<T>();
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = factor * g[i];
          const T mean = beta1 * m[i] + one_minus_beta1 * gradient;
          const T sign = mean > 0 ? T{1} : mean < 0 ? T{-1} : mean;  // NaN stays to be seen
          p[i] *= !cautious || sign * p[i] >= 0 ? keep : T{1};
          p[i] -= rate * sign;
          m[i] = beta2 * m[i] + one_minus_beta2 * gradient;
        }
      });
    });
  }

 private:
  LionOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const LionOptions& o) {
  return make_groups(parameters, std::make_shared<LionRule>(o), o.weight_decay, true);
}

}  // namespace

Lion::Lion(NamedTensors parameters, const LionOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> lion_row() { return std::make_unique<EntryOf<LionRule>>(); }

}  // namespace tapegrad::optim
