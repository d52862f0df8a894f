#include <algorithm>
#include <cmath>
#include <string_view>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/marked_dims.h"

namespace tapegrad {
namespace {

// Elements summed by one thread at a time: fixed, so that a sum does not depend on the threads.
constexpr std::int64_t kChunk = 8192;
constexpr std::int64_t kColumnBlock = 64;

// Sums of rows [begin, end) of x (n, inner), added to total (inner).
template <class T>
void add_rows(const T* x, std::int64_t begin, std::int64_t end, std::int64_t inner, double* total) {
  if (inner == 1) {
    double lanes[8] = {};
    std::int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(x[i + k]);
    }
    for (; i < end; ++i) lanes[0] += static_cast<double>(x[i]);
    for (const double lane : lanes) *total += lane;
    return;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) total[j] += static_cast<double>(x[i * inner + j]);
  }
}

// Sums where inner is so large that threads share out blocks of columns: each adds up all rows.
template <class From, class To>
void sum_columns(const From* x, To* out, const Axis& axis) {
  const std::int64_t blocks = (axis.inner + kColumnBlock - 1) / kColumnBlock;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (axis.n * kColumnBlock + 1));
  parallel_for(axis.outer * blocks, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * kColumnBlock;
      const std::int64_t width = std::min(kColumnBlock, axis.inner - first);
      const From* from = x + i / blocks * axis.n * axis.inner + first;
      double total[kColumnBlock] = {};
      for (std::int64_t r = 0; r < axis.n; ++r) {
        for (std::int64_t j = 0; j < width; ++j) {
          total[j] += static_cast<double>(from[r * axis.inner + j]);
        }
      }
      To* to = out + i / blocks * axis.inner + first;
      for (std::int64_t j = 0; j < width; ++j) to[j] = static_cast<To>(total[j]);
    }
  });
}

// out (outer, inner) = Σ over n of x (outer, n, inner): fixed chunks of rows, added up in order.
template <class From, class To>
void sum_axis(const From* x, To* out, const Axis& axis) {
  if (axis.inner >= kColumnBlock) return sum_columns(x, out, axis);
  const std::int64_t rows =
      std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, axis.inner));
  const std::int64_t chunks = std::max<std::int64_t>(1, (axis.n + rows - 1) / rows);
  std::vector<double> partial(static_cast<std::size_t>(axis.outer * chunks * axis.inner), 0.0);
  const std::int64_t per_chunk = std::min(rows, axis.n) * axis.inner;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, per_chunk));
  parallel_for(axis.outer * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c % chunks * rows;
      add_rows(x + c / chunks * axis.n * axis.inner, first, std::min(first + rows, axis.n),
               axis.inner, partial.data() + c * axis.inner);
    }
  });
  for (std::int64_t o = 0; o < axis.outer; ++o) {
    double* total = partial.data() + o * chunks * axis.inner;
    for (std::int64_t c = 1; c < chunks; ++c) {
      for (std::int64_t j = 0; j < axis.inner; ++j) total[j] += total[c * axis.inner + j];
    }
    for (std::int64_t j = 0; j < axis.inner; ++j) {
      out[o * axis.inner + j] = static_cast<To>(total[j]);
    }
  }
}

// Sums over each marked dimension, which keeps a size of 1. Neighbouring ones are taken as one.
// Where that takes several sums, all but the last stay f64, so that the result is rounded once.
Tensor sum_dims(const Tensor& x, const std::vector<bool>& marked) {
  Tensor y = x;
  for (int i = x.rank(); i-- > 0;) {
    if (!marked[static_cast<std::size_t>(i)]) continue;
    int first = i;
    while (first > 0 && marked[static_cast<std::size_t>(first) - 1]) --first;
    Shape merged = y.shape(), result = y.shape();
    for (int d = i; d > first; --d) {
      merged[first] *= merged[d];
      merged[d] = 1;
    }
    for (int d = first; d <= i; ++d) result[d] = 1;
    const bool last =
        std::none_of(marked.begin(), marked.begin() + first, [](bool m) { return m; });
    Tensor sums = Tensor::empty(result, last ? x.dtype() : DType::f64);
    dispatch(y.dtype(), [&](auto from) {
      dispatch(sums.dtype(), [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        sum_axis(y.data<From>(), sums.mutable_data<To>(), Axis(merged, first));
      });
    });
    y = sums;
    i = first;
  }
  return y.id() == x.id() ? x.clone() : y;
}

// f(x), which is linear, but where that is no finite number f(x·2⁻⁶⁴)·2⁶⁴: a sum on the way may
// leave the range where the result does not.
template <class F>
Tensor within_range(const Tensor& x, const F& f) {
  const Tensor y = f(x);
  if (all_finite(y)) return y;
  constexpr double kSmall = 0x1p-64;  // there are no 2⁶⁴ elements
  return where(eq(y - y, 0), y, f(x * kSmall) / kSmall);
}

// out (outer, inner) = Σ over n of x (outer, n, inner), of integers.
template <class T>
void add_integers(const T* x, std::int64_t* out, const Axis& axis) {
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, axis.n * axis.inner) + 1;
  parallel_for(axis.outer, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * axis.n; i < end * axis.n; ++i) {
      std::int64_t* const total = out + i / axis.n * axis.inner;
      for (std::int64_t j = 0; j < axis.inner; ++j) {
        const auto term = static_cast<std::int64_t>(x[i * axis.inner + j]);
        const std::int64_t before = total[j];
        check(!__builtin_add_overflow(before, term, &total[j]),
              "[sum] {} and {} give a number that i64 does not hold; sum x.to(DType::f64)", before,
              term);
      }
    }
  });
}

// Sums over each marked dimension of integers or truth values, in i64. A size of 1 stays.
Tensor sum_integers(const Tensor& x, const std::vector<bool>& marked) {
  Tensor y = x;
  for (int i = x.rank(); i-- > 0;) {
    if (!marked[static_cast<std::size_t>(i)]) continue;
    Tensor sums = Tensor::zeros(y.shape().with(i, 1), DType::i64);
    dispatch_all(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      add_integers(y.data<T>(), sums.mutable_data<std::int64_t>(), Axis(y.shape(), i));
    });
    y = sums;
  }
  return y.id() == x.id() ? x.to(DType::i64) : y;
}

// The axes that a reduction to a shape has made 1. Those that were 1 before may be reduced as well.
OnnxWholes reduced_axes(const Shape& shape) {
  OnnxWholes axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) axes.push_back(i);
  }
  return axes;
}

// True if v comes before the largest element so far: NaN counts as largest.
template <class T>
bool is_larger(T v, T largest) {
  return v > largest || (v != v && largest == largest);
}

// The element of all behind which none comes(behind, it).
template <class Comes>
Tensor first_of(const Tensor& x, const Comes& comes) {
  const std::int64_t chunks = (x.numel() + kChunk - 1) / kChunk;
  Tensor largest = Tensor::empty({chunks}, x.dtype()), result = Tensor::empty({}, x.dtype());
  dispatch_all(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    T *of_chunk = largest.mutable_data<T>(), *out = result.mutable_data<T>();
    parallel_for(chunks, kElementGrain / kChunk, [=, n = x.numel()](auto begin, auto end) {
      for (auto c = begin; c < end; ++c) {
        of_chunk[c] = *std::min_element(in + c * kChunk, in + std::min(n, (c + 1) * kChunk), comes);
      }
    });
    parallel_for(1, 1, [=](auto, auto) {  // which a dry run leaves out
      *out = *std::min_element(of_chunk, of_chunk + chunks, comes);
    });
  });
  return result;
}

Tensor largest_of(const Tensor& x) {
  return first_of(x, [](auto a, auto b) { return is_larger(a, b); });
}

// The index of the first largest element along dim.
Tensor first_largest(std::string_view op, const Tensor& x, int dim) {
  const Axis axis(x.shape(), dim);
  check(axis.n > 0, "[{}] dimension {} of {} is empty", op, dim, x.shape());
  check_indices_fit(op, x.shape(), dim);
  Tensor indices = Tensor::empty(x.shape().without(dim), DType::i32);
  auto* out = indices.mutable_data<std::int32_t>();
  dispatch_all(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    parallel_for(axis.outer * axis.inner, kElementGrain / axis.n + 1, [=](auto begin, auto end) {
      for (auto i = begin; i < end; ++i) {
        const T* first = in + i / axis.inner * axis.n * axis.inner + i % axis.inner;
        std::int64_t best = 0;
        for (std::int64_t k = 1; k < axis.n; ++k) {
          if (is_larger(first[k * axis.inner], first[best * axis.inner])) best = k;
        }
        out[i] = static_cast<std::int32_t>(best);
      }
    });
  });
  return indices;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  const std::vector<bool> marked = marked_dims("sum", x.shape(), dims);
  if (!is_float(x.dtype())) {
    return sum_integers(x, marked).view(kept_shape(x.shape(), marked, keepdim));
  }
  const Tensor sums = apply(
      "sum", {x},
      [marked](Inputs in, Saved&) {
        const auto sums = [&](const Tensor& t) { return sum_dims(t, marked); };
        // f32 is accumulated in double, which holds all sums on the way.
        return in[0].dtype() == DType::f32 ? sums(in[0]) : within_range(in[0], sums);
      },
      [shape = x.shape()](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {broadcast_to(dy, shape)};
      },
      {.onnx = [](OnnxCall& c) {
        return c("ReduceSum", {c.in(0), c.wholes(reduced_axes(c.y_shape))});
      }});
  return keepdim ? sums : reshape(sums, kept_shape(x.shape(), marked, false));
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  if (!is_float(x.dtype())) return mean(x.to(DType::f64), dims, keepdim);
  const std::vector<bool> marked = marked_dims("mean", x.shape(), dims);
  const auto n = static_cast<double>(marked_count(x.shape(), marked));
  const Tensor means = apply(
      "mean", {x},
      [=](Inputs in, Saved&) {
        return within_range(in[0], [&](const Tensor& t) { return sum_dims(t, marked) / n; });
      },
      [=, shape = x.shape()](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        // The gradient of nothing has no elements, and is not divided by 0.
        return {broadcast_to(shape.numel() == 0 ? dy : dy / n, shape)};
      },
      {.onnx = [](OnnxCall& c) {
        return c("ReduceMean", {c.in(0)}, {{"axes", reduced_axes(c.y_shape)}});
      }});
  return keepdim ? means : reshape(means, kept_shape(x.shape(), marked, false));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return is_float(x.dtype()) ? x : x.to(DType::i64);
  check(broadcast_shapes("sum_to", x.shape(), shape) == x.shape(),
        "[sum_to] {} cannot be summed to {}", x.shape(), shape);
  std::vector<int> dims;
  const int extra = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i) {
    if (i < extra || shape[i - extra] != x.dim(i)) dims.push_back(i);
  }
  return reshape(dims.empty() ? sum_to(x, x.shape()) : sum(x, dims, true), shape);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast_shapes("broadcast_to", x.shape(), shape) == shape,
        "[broadcast_to] {} does not broadcast to {}", x.shape(), shape);
  return apply(
      "broadcast_to", {x},
      [shape](Inputs in, Saved&) {
        // The plan of adding x to a tensor of the wanted shape tells where each element comes from.
        Tensor out = Tensor::empty(shape, in[0].dtype());
        const BroadcastPlan plan = plan_broadcast("broadcast_to", in[0].shape(), shape);
        dispatch_all(in[0].dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = out.mutable_data<T>();
          const std::int64_t stride = plan.dims.back().a_stride;
          parallel_for(out.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
            detail::walk_rows(plan, begin, end, [&](auto ia, auto, auto i, auto stop) {
              for (auto k = i; k < stop; ++k) to[k] = from[ia + (k - i) * stride];
            });
          });
        });
        return out;
      },
      [from = x.shape()](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {sum_to(dy, from)};
      },
      {.onnx = [](OnnxCall& c) {
        return c("Expand", {c.in(0), c.sizes(c.y_shape)});
      }});
}

Tensor max(const Tensor& x) {
  check(x.numel() > 0, "[max] an empty tensor of shape {} has no maximum", x.shape());
  if (!is_float(x.dtype())) return largest_of(x);
  return apply(
      "max", {x}, [](Inputs in, Saved& saved) { return saved.keep(largest_of(saved.keep(in[0]))); },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor& best = saved[1];
        const bool is_nan = std::isnan(best.item());
        const Tensor ties = zip("max", saved[0], best, [is_nan](auto v, auto b) {
          return static_cast<decltype(v)>(is_nan ? std::isnan(v) : v == b);
        });
        return {where(ties.to(DType::u8), dy / sum(ties), Tensor::scalar(0, dy.dtype()))};
      },
      {.onnx = [](OnnxCall& c) {
        return c("ReduceMax", {c.in(0)}, {{"keepdims", std::int64_t{0}}});
      }});
}

Tensor min(const Tensor& x) {
  check(x.numel() > 0, "[min] an empty tensor of shape {} has no minimum", x.shape());
  if (is_float(x.dtype())) return -max(-x);
  return first_of(x, [](auto a, auto b) { return a < b; });
}

Tensor argmax(const Tensor& x, int dim) {
  if (x.rank() == 0) return argmax(x.detach().view({1}), dim);
  dim = axis_index("argmax", x.shape(), dim);
  return first_largest("argmax", x, dim);
}

MaxResult max(const Tensor& x, int dim, bool keepdim) {
  if (x.rank() == 0) return max(reshape(x, {1}), dim);
  dim = axis_index("max", x.shape(), dim);
  const Tensor indices = first_largest("max", x, dim);
  const Tensor values = gather(x, indices, dim);
  if (!keepdim) return {values, indices};
  const Shape kept = x.shape().with(dim, 1);
  return {reshape(values, kept), indices.view(kept)};
}

}  // namespace tapegrad
