#include "autograd/elementwise.h"
#include "autograd/ops.h"

namespace tapegrad {
namespace {

// x·scale where mask is set, else 0. Linear in x, so that its gradient is the same op again.
Tensor apply_mask(const Tensor& x, const Tensor& mask, double scale) {
  return apply(
      "dropout", {x},
      [=](Inputs in, Saved&) {
        Tensor y = Tensor::empty(in[0].shape(), in[0].dtype());
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          const std::uint8_t* keep = mask.data<std::uint8_t>();
          T* to = y.mutable_data<T>();
          parallel_for(y.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              to[i] = keep[i] != 0 ? from[i] * static_cast<T>(scale) : T{0};
            }
          });
        });
        return y;
      },
      [=](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {apply_mask(dy, mask, scale)};
      });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Rng& rng) {
  check(p >= 0 && p <= 1, "[dropout] the probability must be from 0 to 1, not {}", p);
  if (p == 0) return x;
  Tensor mask = Tensor::empty(x.shape(), DType::u8);
  rng.keep_mask({mask.mutable_data<std::uint8_t>(), static_cast<std::size_t>(mask.numel())}, p);
  return apply_mask(x, mask, p == 1 ? 0 : 1 / (1 - p));
}

}  // namespace tapegrad
