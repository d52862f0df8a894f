#include "tapegrad/optim/optimizers/adagrad.h"

#include <cmath>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

class AdagradRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "adagrad";
  using Options = AdagradOptions;

  explicit AdagradRule(const AdagradOptions& options) : options_(options) {
    const float eps = static_cast<float>(options.eps);  // of 0, updates would be 0/0
    check_numbers("AdagradOptions",
                  {{"lr_decay", options.lr_decay, at_least(0)},
                   {"initial_accumulator_value", options.initial_accumulator_value, at_least(0)},
                   {"eps", eps, above(0)},
                   {"weight_decay", options.weight_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "Adagrad"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override { return {{"sum", shape}}; }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    const double slower = 1 + static_cast<double>(f.step - 1) * options_.lr_decay;
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T rate = static_cast<T>(f.lr / slower), decay = static_cast<T>(f.weight_decay);
      const T factor = static_cast<T>(f.grad_factor), eps = static_cast<T>(options_.eps);
      const T initial = static_cast<T>(options_.initial_accumulator_value);
      T* p = part.parameter.mutable_data<T>();
      T* s = part.kept[0].mutable_data<T>();
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = factor * g[i] + decay * p[i];
          s[i] += gradient * gradient;
          p[i] -= rate * (gradient / (std::sqrt(initial + s[i]) + eps));
        }
      });
    });
  }

 private:
  AdagradOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const AdagradOptions& o) {
  return make_groups(parameters, std::make_shared<AdagradRule>(o), o.weight_decay, true);
}

}  // namespace

Adagrad::Adagrad(NamedTensors parameters, const AdagradOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> adagrad_row() { return std::make_unique<EntryOf<AdagradRule>>(); }

}  // namespace tapegrad::optim
