#include "tapegrad/optim/optimizers/adamw.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

// The factors of one step, the same for every element.
template <class T, bool kCautious, bool kAmsgrad>
struct Update {
  T keep, one_minus_beta1, beta2, one_minus_beta2, step_size, root_scale, eps,
      grad_factor;  // rest = 1 − beta

  // `largest` is null unless kAmsgrad.
  void operator()(T& p, T g, T& m, T& v, T* largest) const {
    g *= grad_factor;
    if constexpr (!kCautious) p *= keep;
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    if constexpr (kCautious) p *= m * p >= 0 ? keep : 1;  // the update has m's sign
    T square = v;
    if constexpr (kAmsgrad) square = *largest = std::max(square, *largest);
    p -= step_size * (m / (std::sqrt(square) / root_scale + eps));
  }
};

class AdamWRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "adamw";
  using Options = AdamWOptions;

  explicit AdamWRule(const AdamWOptions& options) : options_(options) {
    // With eps = 0, a parameter whose gradient was always 0 would be updated by 0/0.
    check_numbers("AdamWOptions", {{"beta1", options.beta1, from_to_below(0, 1)},
                                   {"beta2", options.beta2, from_to_below(0, 1)},
                                   {"eps", options.eps, above(0)},
                                   {"weight_decay", options.weight_decay, at_least(0)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "AdamW"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    std::vector<StateSpec> kept{{"exp_avg", shape}, {"exp_avg_sq", shape}};
    if (options_.amsgrad) kept.push_back({"max_exp_avg_sq", shape});
    return kept;
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::elements; }

  bool decays_cautiously() const override { return true; }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    if (options_.amsgrad) {
      f.cautious_decay ? update_all<true, true>(part, f) : update_all<false, true>(part, f);
    } else {
      f.cautious_decay ? update_all<true, false>(part, f) : update_all<false, false>(part, f);
    }
  }

 private:
  template <bool kCautious, bool kAmsgrad>
  void update_all(UpdatedPart& part, const UpdateFactors& f) const {
    const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(f.step));
    const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(f.step));
    dispatch(part.gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const Update<T, kCautious, kAmsgrad> update{static_cast<T>(1 - f.lr * f.weight_decay),
                                                  static_cast<T>(1 - options_.beta1),
                                                  static_cast<T>(options_.beta2),
                                                  static_cast<T>(1 - options_.beta2),
                                                  static_cast<T>(f.lr / correction1),
                                                  static_cast<T>(std::sqrt(correction2)),
                                                  static_cast<T>(options_.eps),
                                                  static_cast<T>(f.grad_factor)};
      T* p = part.parameter.mutable_data<T>();
      T* m = part.kept[0].mutable_data<T>();
      T* v = part.kept[1].mutable_data<T>();
      T* largest = kAmsgrad ? part.kept[2].mutable_data<T>() : nullptr;
      const T* g = part.gradient.data<T>();
      parallel_for(part.gradient.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          update(p[i], g[i], m[i], v[i], kAmsgrad ? largest + i : nullptr);
        }
      });
    });
  }

  AdamWOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const AdamWOptions& o) {
  return make_groups(parameters, std::make_shared<AdamWRule>(o), o.weight_decay, o.decay_all);
}

}  // namespace

AdamW::AdamW(NamedTensors parameters, const AdamWOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> adamw_row() { return std::make_unique<EntryOf<AdamWRule>>(); }

}  // namespace tapegrad::optim
