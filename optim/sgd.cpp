#include "tapegrad/optim/sgd.h"

#include "tapegrad/base/parallel.h"
#include "tapegrad/optim/any_gradient.h"

namespace tapegrad::optim {

SGD::SGD(NamedTensors parameters, const SGDOptions& options) : options_(options) {
  check(options.momentum >= 0, "momentum must be at least 0, not {}", options.momentum);
  check(options.weight_decay >= 0, "weight_decay must be at least 0, not {}", options.weight_decay);
  check(!options.nesterov || options.momentum > 0, "nesterov needs a momentum above 0");
  for (auto& [name, t] : parameters) slots_.push_back({t, {}});
}

void SGD::step(double lr) {
  check_any_gradient("SGD", slots_);
  for (Slot& slot : slots_) {
    const Tensor grad = slot.parameter.grad();
    if (!grad.defined()) continue;
    if (!slot.buffer.defined()) slot.buffer = Tensor::zeros(grad.shape(), grad.dtype());
    dispatch(grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T rate = static_cast<T>(lr), momentum = static_cast<T>(options_.momentum);
      const T decay = static_cast<T>(options_.weight_decay);
      const bool nesterov = options_.nesterov;
      T* p = slot.parameter.mutable_data<T>();
      T* b = slot.buffer.mutable_data<T>();
      const T* g = grad.data<T>();
      parallel_for(grad.numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T gradient = g[i] + decay * p[i];
          b[i] = momentum * b[i] + gradient;
          p[i] -= rate * (nesterov ? gradient + momentum * b[i] : b[i]);
        }
      });
    });
  }
}

void SGD::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

}  // namespace tapegrad::optim
