#include <algorithm>
#include <cstdint>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/ops/internal/norm_rows.h"

namespace tapegrad {
namespace {

template <class T>
void add_products(const T* __restrict a, const T* __restrict b, std::int64_t n,
                  T* __restrict sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += a[i] * b[i];
}

// Each of these three is linear in two factors, and the gradients of each are the other two.
// Position t meets position t − j by tap K − 1 − j, if that is of the same document.
struct CausalTaps {
  Shape x_shape;      // (B, T, C)
  std::int64_t taps;  // K
  Tensor starts;      // document_starts

  Tensor forward(const Tensor& x, const Tensor& weight) const;
  Tensor backward(const Tensor& dy, const Tensor& weight) const;  // of x
  Tensor sums(const Tensor& dy, const Tensor& x) const;           // of the weight

 private:
  std::int64_t rows() const { return x_shape[0] * x_shape[1]; }
  // What the gradient of a product of a and b needs.
  static void keep_factors(Inputs in, Saved& saved) {
    saved.keep(saved.needs(1) ? in[0] : Tensor());
    saved.keep(saved.needs(0) ? in[1] : Tensor());
  }
  // The positions before row r = b·T + t of its document that it meets.
  std::int64_t before(std::int64_t r) const {
    const std::int64_t t = r % x_shape[1];
    const std::int64_t start = starts.defined() ? starts.data<std::int32_t>()[r] : 0;
    return std::min(t - start, taps - 1);
  }
  // The positions behind row r of its document that meet it.
  std::int64_t behind(std::int64_t r) const {
    const std::int64_t T = x_shape[1], t = r % T, most = std::min(T - 1 - t, taps - 1);
    if (!starts.defined()) return most;
    const auto* const start = starts.data<std::int32_t>() + r;
    std::int64_t j = 0;
    while (j < most && start[j + 1] <= t) ++j;
    return j;
  }
  // Calls add(r, to) for each row of a tensor of zeros like x.
  template <class T, class Add>
  Tensor rows_of(const Add& add) const {
    Tensor y = Tensor::zeros(x_shape, dtype_of<T>());
    const std::int64_t C = x_shape[2];
    T* const to = y.mutable_data<T>();
    parallel_for(rows(), row_grain(taps * C), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) add(r, to + r * C);
    });
    return y;
  }
  // A tensor (C, 1, K) as rows of channels (K, C), and back.
  Tensor by_tap(const Tensor& weight) const {
    return permute(reshape(weight, {x_shape[2], taps}), {1, 0});
  }
  Tensor by_channel(const Tensor& rows) const {
    return reshape(permute(reshape(rows, {taps, x_shape[2]}), {1, 0}), {x_shape[2], 1, taps});
  }
};

Tensor CausalTaps::forward(const Tensor& x, const Tensor& weight) const {
  return apply(
      "causal_conv1d", {x, weight},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        const Tensor taps = p.by_tap(in[1]);
        return dispatch(in[0].dtype(), [&](auto zero) {
          using T = decltype(zero);
          const std::int64_t C = p.x_shape[2];
          const T *from = in[0].data<T>(), *w = taps.data<T>();
          // From the earliest position to the latest, always in this order.
          return p.rows_of<T>([&](std::int64_t r, T* to) {
            for (std::int64_t j = p.before(r); j >= 0; --j) {
              add_products(from + (r - j) * C, w + (p.taps - 1 - j) * C, C, to);
            }
          });
        });
      },
      [p = *this](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.backward(dy, saved[1]) : Tensor(),
                needs[1] ? p.sums(dy, saved[0]) : Tensor()};
      },
      {.onnx = [p = *this](OnnxCall& c) {
        check(!p.starts.defined(), "[causal_conv1d] document_starts cannot be written to ONNX");
        const auto turned = [&](const OnnxValue& v) {
          return c("Transpose", {v}, {{"perm", OnnxWholes{0, 2, 1}}});
        };
        return turned(c("Conv", {turned(c.in(0)), c.in(1)},
                        {{"pads", OnnxWholes{p.taps - 1, 0}}, {"group", p.x_shape[2]}}));
      }});
}

Tensor CausalTaps::backward(const Tensor& dy, const Tensor& weight) const {
  return apply(
      "causal_conv1d_back", {dy, weight},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        const Tensor taps = p.by_tap(in[1]);
        return dispatch(in[0].dtype(), [&](auto zero) {
          using T = decltype(zero);
          const std::int64_t C = p.x_shape[2];
          const T *from = in[0].data<T>(), *w = taps.data<T>();
          return p.rows_of<T>([&](std::int64_t r, T* to) {
            for (std::int64_t j = p.behind(r); j >= 0; --j) {
              add_products(from + (r + j) * C, w + (p.taps - 1 - j) * C, C, to);
            }
          });
        });
      },
      [p = *this](const Tensor& dx, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.forward(dx, saved[1]) : Tensor(),
                needs[1] ? p.sums(saved[0], dx) : Tensor()};
      });
}

Tensor CausalTaps::sums(const Tensor& dy, const Tensor& x) const {
  return apply(
      "causal_conv1d_sums", {dy, x},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        return dispatch(in[0].dtype(), [&](auto zero) {
          using T = decltype(zero);
          const std::int64_t C = p.x_shape[2];
          const T *d = in[0].data<T>(), *from = in[1].data<T>();
          const auto add_row = [&](std::int64_t r, const std::array<T*, 1>& sums) {
            for (std::int64_t j = p.before(r); j >= 0; --j) {
              add_products(d + r * C, from + (r - j) * C, C, sums[0] + (p.taps - 1 - j) * C);
            }
          };
          return p.by_channel(sums_over_rows<T, 1>(p.rows(), p.taps * C, add_row)[0]);
        });
      },
      [p = *this](const Tensor& dw, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.forward(saved[1], dw) : Tensor(),
                needs[1] ? p.backward(saved[0], dw) : Tensor()};
      });
}

}  // namespace

Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& document_starts) {
  check(x.rank() == 3, "[causal_conv1d] x must be (B, T, C), not {}", x.shape());
  const std::int64_t C = x.dim(2);
  check(weight.rank() == 3 && weight.dim(0) == C && weight.dim(1) == 1 && weight.dim(2) > 0,
        "[causal_conv1d] the weight must be ({}, 1, taps), not {}", C, weight.shape());
  check(x.dtype() == weight.dtype(), "[causal_conv1d] dtypes differ: {} and {}", name_of(x.dtype()),
        name_of(weight.dtype()));
  check(!bias.defined() || bias.shape() == Shape{C}, "[causal_conv1d] bias {} does not fit x {}",
        bias.defined() ? bias.shape() : Shape{}, x.shape());
  check_document_starts("causal_conv1d", document_starts, x.dim(0), x.dim(1));
  // A copy, so that the caller may change them before backward.
  const Tensor starts = document_starts.defined() ? document_starts.clone() : Tensor();
  const Tensor y = CausalTaps{x.shape(), weight.dim(2), starts}.forward(x, weight);
  return bias.defined() ? y + bias : y;
}

}  // namespace tapegrad
