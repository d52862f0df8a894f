#include "tapegrad/optim/optimizers/nadam.h"

#include <cmath>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

// μₜ of a step, counted from 1.
double momentum_of(const NAdamOptions& o, std::int64_t step) {
  return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * o.momentum_decay));
}

// μ₁⋯μₜ, in T after each factor, as PyTorch has it. Below 2⁻⁵⁴, one minus the product is 1, so the
// factors that remain change nothing: with beta1 = 0.9, no more than 356 are multiplied.
template <class T>
double momentum_product(const NAdamOptions& o, std::int64_t steps) {
  T product = 1;
  for (std::int64_t t = 1; t <= steps && product > T{0x1p-54}; ++t) {
    product *= static_cast<T>(momentum_of(o, t));
  }
  return static_cast<double>(product);
}

// The factors of one step, the same for every element.
template <class T>
struct Update {
  T keep, decay, grad_factor, one_minus_beta1, beta2, one_minus_beta2, correction2, eps,
      gradient_size, mean_size;

  void operator()(T& p, T g, T& m, T& v) const {
    p *= keep;
    g = grad_factor * g + decay * p;
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    const T root = std::sqrt(v / correction2) + eps;
    p -= gradient_size * g / root;
    p -= mean_size * m / root;
  }
};

class NAdamRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "nadam";
  using Options = NAdamOptions;

  explicit NAdamRule(const NAdamOptions& options) : options_(options) {
    const float eps = static_cast<float>(options.eps);  // of 0, updates would be 0/0
    check_numbers("NAdamOptions", {{"beta1", options.beta1, from_to_below(0, 1)},
                                   {"beta2", options.beta2, from_to_below(0, 1)},
                                   {"eps", eps, above(0)},
                                   {"weight_decay", options.weight_decay, at_least(0)},
                                   {"momentum_decay", options.momentum_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "NAdam"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    return {{"exp_avg", shape}, {"exp_avg_sq", shape}};
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const Update<T> update = factors<T>(f);
      T* p = part.parameter.mutable_data<T>();
      T* m = part.kept[0].mutable_data<T>();
      T* v = part.kept[1].mutable_data<T>();
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) update(p[i], g[i], m[i], v[i]);
      });
    });
  }

 private:
  template <class T>
  Update<T> factors(const UpdateFactors& f) const {
    const bool decoupled = options_.decoupled_weight_decay;
    const double momentum = momentum_of(options_, f.step);
    const double next = momentum_of(options_, f.step + 1);
    const double product = momentum_product<T>(options_, f.step);
    const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(f.step));
    return {.keep = static_cast<T>(decoupled ? 1 - f.lr * f.weight_decay : 1),
            .decay = static_cast<T>(decoupled ? 0 : f.weight_decay),
            .grad_factor = static_cast<T>(f.grad_factor),
            .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
            .beta2 = static_cast<T>(options_.beta2),
            .one_minus_beta2 = static_cast<T>(1 - options_.beta2),
            .correction2 = static_cast<T>(correction2),
            .eps = static_cast<T>(options_.eps),
            .gradient_size = static_cast<T>(f.lr * (1 - momentum) / (1 - product)),
            .mean_size = static_cast<T>(f.lr * next / (1 - product * next))};
  }

  NAdamOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const NAdamOptions& o) {
  return make_groups(parameters, std::make_shared<NAdamRule>(o), o.weight_decay, true);
}

}  // namespace

NAdam::NAdam(NamedTensors parameters, const NAdamOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> nadam_row() { return std::make_unique<EntryOf<NAdamRule>>(); }

}  // namespace tapegrad::optim
