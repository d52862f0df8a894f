#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// x times the mask's factors. Linear in x, so that its gradient is the same op again.
Tensor apply_mask(const Tensor& x, const KeepMask& mask) {
  return apply(
      "dropout", {x},
      [=](Inputs in, Saved& saved) {
        saved.keep(mask.stored());
        Tensor y = Tensor::empty(in[0].shape(), in[0].dtype());
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = y.mutable_data<T>();
          parallel_for(y.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
            mask.multiply(begin, end - begin, from + begin, to + begin);
          });
        });
        return y;
      },
      [=](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {apply_mask(dy, mask)};
      });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Rng& rng) {
  const KeepMask mask(rng, x.numel(), p);
  return mask.drops() ? apply_mask(x, mask) : x;
}

}  // namespace tapegrad
