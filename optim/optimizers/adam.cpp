#include "tapegrad/optim/optimizers/adam.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

class AdamRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "adam";
  using Options = AdamOptions;

  explicit AdamRule(const AdamOptions& options) : options_(options) {
    const float eps = static_cast<float>(options.eps);  // of 0, updates would be 0/0
    check_numbers("AdamOptions", {{"beta1", options.beta1, from_to_below(0, 1)},
                                  {"beta2", options.beta2, from_to_below(0, 1)},
                                  {"eps", eps, above(0)},
                                  {"weight_decay", options.weight_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "Adam"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    std::vector<StateSpec> kept{{"exp_avg", shape}, {"exp_avg_sq", shape}};
    if (options_.amsgrad) kept.push_back({"max_exp_avg_sq", shape});
    return kept;
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    options_.amsgrad ? update_all<true>(part, f) : update_all<false>(part, f);
  }

 private:
  template <bool kAmsgrad>
  void update_all(UpdatedPart& part, const UpdateFactors& f) const {
    const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(f.step));
    const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(f.step));
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T decay = static_cast<T>(f.weight_decay), factor = static_cast<T>(f.grad_factor);
      const T one_minus_beta1 = static_cast<T>(1 - options_.beta1),
              beta2 = static_cast<T>(options_.beta2);
      const T one_minus_beta2 = static_cast<T>(1 - options_.beta2),
              eps = static_cast<T>(options_.eps);
      const T step_size = static_cast<T>(f.lr / correction1);
      const T root_scale = static_cast<T>(std::sqrt(correction2));
      T* p = part.parameter.mutable_data<T>();
      T* m = part.kept[0].mutable_data<T>();
      T* v = part.kept[1].mutable_data<T>();
      T* largest = kAmsgrad ? part.kept[2].mutable_data<T>() : nullptr;
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = factor * g[i] + decay * p[i];
          m[i] += one_minus_beta1 * (gradient - m[i]);
          v[i] = beta2 * v[i] + one_minus_beta2 * gradient * gradient;
          T square = v[i];
          if constexpr (kAmsgrad) square = largest[i] = std::max(square, largest[i]);
          p[i] -= step_size * (m[i] / (std::sqrt(square) / root_scale + eps));
        }
      });
    });
  }

  AdamOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const AdamOptions& o) {
  return make_groups(parameters, std::make_shared<AdamRule>(o), o.weight_decay, true);
}

}  // namespace

Adam::Adam(NamedTensors parameters, const AdamOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> adam_row() { return std::make_unique<EntryOf<AdamRule>>(); }

}  // namespace tapegrad::optim
