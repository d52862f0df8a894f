#include "tapegrad/optim/optimizers/rmsprop.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

class RMSpropRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "rmsprop";
  using Options = RMSpropOptions;

  explicit RMSpropRule(const RMSpropOptions& options) : options_(options) {
    const float eps = static_cast<float>(options.eps);  // of 0, updates would be 0/0
    check_numbers("RMSpropOptions", {{"alpha", options.alpha, from_to_below(0, 1)},
                                     {"momentum", options.momentum, from_to_below(0, 1)},
                                     {"eps", eps, above(0)},
                                     {"weight_decay", options.weight_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "RMSprop"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    std::vector<StateSpec> kept{{"square_avg", shape}};
    if (options_.centered) kept.push_back({"grad_avg", shape});
    if (options_.momentum > 0) kept.push_back({"momentum_buffer", shape});
    return kept;
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T rate = static_cast<T>(f.lr), decay = static_cast<T>(f.weight_decay);
      const T factor = static_cast<T>(f.grad_factor), eps = static_cast<T>(options_.eps);
      const T alpha = static_cast<T>(options_.alpha), rest = static_cast<T>(1 - options_.alpha);
      const T momentum = static_cast<T>(options_.momentum);
      T* p = part.parameter.mutable_data<T>();
      T* v = part.kept[0].mutable_data<T>();
      T* a = options_.centered ? part.kept[1].mutable_data<T>() : nullptr;
      T* b = options_.momentum > 0 ? part.kept.back().mutable_data<T>() : nullptr;
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = factor * g[i] + decay * p[i];
          v[i] = alpha * v[i] + rest * gradient * gradient;
          T square = v[i];
          if (a != nullptr) {
            a[i] += rest * (gradient - a[i]);
            square = std::max(square - a[i] * a[i], T{0});
          }
          T step = gradient / (std::sqrt(square) + eps);
          if (b != nullptr) step = b[i] = momentum * b[i] + step;
          p[i] -= rate * step;
        }
      });
    });
  }

 private:
  RMSpropOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const RMSpropOptions& o) {
  return make_groups(parameters, std::make_shared<RMSpropRule>(o), o.weight_decay, true);
}

}  // namespace

RMSprop::RMSprop(NamedTensors parameters, const RMSpropOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> rmsprop_row() { return std::make_unique<EntryOf<RMSpropRule>>(); }

}  // namespace tapegrad::optim
