#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/lines.h"

namespace tapegrad {
namespace {

// Columns that are summed side by side.
constexpr std::int64_t kColumns = 64;

template <class T>
void add_up_line(const T* x, T* out, std::int64_t n, bool from_end) {
  double total = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = from_end ? n - 1 - k : k;
    total += static_cast<double>(x[i]);
    out[i] = static_cast<T>(total);
  }
}

// out[k] = x[0] + … + x[k] along the axis, or from the end on: x[k] + … + x[n − 1].
template <class T>
void add_up(const T* x, T* out, const Axis& axis, bool from_end) {
  const std::int64_t blocks = (axis.inner + kColumns - 1) / kColumns;
  const std::int64_t width = std::min(axis.inner, kColumns);
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, axis.n * width) + 1;
  parallel_for(axis.outer * blocks, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * kColumns;
      const std::int64_t columns = std::min(kColumns, axis.inner - first);
      const std::int64_t offset = i / blocks * axis.n * axis.inner + first;
      if (axis.inner == 1) {
        add_up_line(x + offset, out + offset, axis.n, from_end);
        continue;
      }
      double total[kColumns] = {};
      for (std::int64_t k = 0; k < axis.n; ++k) {
        const std::int64_t row = offset + (from_end ? axis.n - 1 - k : k) * axis.inner;
        for (std::int64_t j = 0; j < columns; ++j) {
          total[j] += static_cast<double>(x[row + j]);
          out[row + j] = static_cast<T>(total[j]);
        }
      }
    }
  });
}

// Each is the other's derivative.
Tensor running_sum(const Tensor& x, int dim, bool from_end) {
  return apply(
      from_end ? "cumsum_from_end" : "cumsum", {x},
      [=](Inputs in, Saved&) {
        Tensor out = Tensor::empty(in[0].shape(), in[0].dtype());
        dispatch(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          add_up(in[0].template data<T>(), out.mutable_data<T>(), Axis(out.shape(), dim), from_end);
        });
        return out;
      },
      [=](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {running_sum(dy, dim, !from_end)};
      },
      {.onnx = [=](OnnxCall& c) {
        return c("CumSum", {c.in(0), c.value(Tensor::scalar(dim, DType::i64))},
                 {{"reverse", std::int64_t{from_end}}});
      }});
}

}  // namespace

Tensor cumsum(const Tensor& x, int dim) {
  if (x.rank() == 0) return reshape(cumsum(reshape(x, {1}), dim), {});
  dim = axis_index("cumsum", x.shape(), dim);
  if (is_float(x.dtype())) return running_sum(x, dim, false);
  return running_integers("cumsum", x, dim, [](std::int64_t a, std::int64_t b, std::int64_t* c) {
    return __builtin_add_overflow(a, b, c);
  });
}

}  // namespace tapegrad
