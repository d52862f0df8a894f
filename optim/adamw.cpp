#include "tapegrad/optim/adamw.h"

#include <charconv>
#include <cmath>

#include "tapegrad/base/parallel.h"
#include "tapegrad/optim/any_gradient.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;
// Far more than any run makes; the count of a file must leave room to go on counting.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
const std::string kStepKey = "adamw.steps";

// The factors of one step, the same for every element.
template <class T>
struct Update {
  T keep, rest1, beta2, rest2, step_size, root_scale, eps, grad_factor;  // rest = 1 − beta

  void operator()(T& p, T g, T& m, T& v) const {
    g *= grad_factor;
    p *= keep;
    m += rest1 * (g - m);
    v = beta2 * v + rest2 * g * g;
    p -= step_size * (m / (std::sqrt(v) / root_scale + eps));
  }
};

}  // namespace

AdamW::AdamW(NamedTensors parameters, const AdamWOptions& options) : options_(options) {
  const auto fraction = [](std::string_view name, double value) {
    check(value >= 0 && value < 1, "{} must be at least 0 and below 1, not {}", name, value);
  };
  fraction("beta1", options.beta1);
  fraction("beta2", options.beta2);
  // With eps = 0, a parameter whose gradient was always 0 would be updated by 0/0.
  check(options.eps > 0, "eps must be above 0, not {}", options.eps);
  check(options.weight_decay >= 0, "weight_decay must be at least 0, not {}", options.weight_decay);
  for (auto& [name, t] : parameters) {
    slots_.push_back(
        {name, t, Tensor::zeros(t.shape(), t.dtype()), Tensor::zeros(t.shape(), t.dtype())});
  }
}

void AdamW::step(double lr, double grad_factor) {
  check_any_gradient("AdamW", slots_);
  step_part(lr, grad_factor, [](std::size_t) {});
}

void AdamW::step_part(double lr, double grad_factor,
                      const std::function<void(std::size_t)>& updated) {
  ++steps_;
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  const auto update_slot = [&](Slot& slot, const Tensor& grad) {
    const bool decays = options_.decay_all || slot.parameter.rank() >= 2;
    dispatch(grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const Update<T> update{static_cast<T>(decays ? 1 - lr * options_.weight_decay : 1),
                             static_cast<T>(1 - options_.beta1),
                             static_cast<T>(options_.beta2),
                             static_cast<T>(1 - options_.beta2),
                             static_cast<T>(lr / correction1),
                             static_cast<T>(std::sqrt(correction2)),
                             static_cast<T>(options_.eps),
                             static_cast<T>(grad_factor)};
      T* p = slot.parameter.mutable_data<T>();
      T* m = slot.exp_avg.mutable_data<T>();
      T* v = slot.exp_avg_sq.mutable_data<T>();
      const T* g = grad.data<T>();
      parallel_for(grad.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) update(p[i], g[i], m[i], v[i]);
      });
    });
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensor grad = slots_[i].parameter.grad();
    if (grad.defined()) update_slot(slots_[i], grad);
    updated(i);
  }
}

void AdamW::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

NamedTensors AdamW::state() const {
  NamedTensors state;
  for (const Slot& slot : slots_) {
    state.emplace_back("exp_avg." + slot.name, slot.exp_avg);
    state.emplace_back("exp_avg_sq." + slot.name, slot.exp_avg_sq);
  }
  return state;
}

Metadata AdamW::metadata() const { return {{kStepKey, std::to_string(steps_)}}; }

void AdamW::check_entry(const TensorSource& file, const std::string& name, const Tensor& like) {
  const TensorSource::Entry& stored = file.at(name);
  check(stored.shape == like.shape() && stored.dtype == like.dtype(),
        "{}: '{}' is {} {}, but the model needs {} {}", file.name(), name, stored.shape,
        tapegrad::name_of(stored.dtype), like.shape(), tapegrad::name_of(like.dtype()));
}

void AdamW::load_state(const TensorSource& file) {
  const auto load = [&](const std::string& name, const Tensor& into) {
    check_entry(file, name, into);
    return file.read(name);
  };
  std::vector<Slot> loaded = slots_;
  for (Slot& slot : loaded) {
    slot.exp_avg = load("exp_avg." + slot.name, slot.exp_avg);
    slot.exp_avg_sq = load("exp_avg_sq." + slot.name, slot.exp_avg_sq);
  }
  const auto it = file.metadata().find(kStepKey);
  check(it != file.metadata().end(), "{}: the metadata has no {}", file.name(), kStepKey);
  std::int64_t steps = 0;
  const char* end = it->second.data() + it->second.size();
  const auto parsed = std::from_chars(it->second.data(), end, steps);
  check(parsed.ec == std::errc() && parsed.ptr == end && steps >= 0 && steps <= kMostSteps,
        "{}: {} is '{}', not a number from 0 to {}", file.name(), kStepKey, it->second, kMostSteps);
  slots_ = std::move(loaded);
  steps_ = steps;
}

}  // namespace tapegrad::optim
