#pragma once

// Kernels behind the elementwise ops: what hides dtype, threads and broadcasting from them. They
// run unrecorded; ops call them from inside apply.

#include <algorithm>
#include <type_traits>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/inline_vector.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

// Elements below which a second thread does not pay, for a cheap function of each element.
inline constexpr std::int64_t kElementGrain = 16384;

// y[i] = f(x[i]).
template <class F>
Tensor map(const Tensor& x, const F& f) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    parallel_for(x.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
    });
  });
  return y;
}

// Lays `row` of n elements down in each of `rows` rows: a bias, to which a product is added in the
// same pass.
template <class T>
void lay_rows(const T* row, std::int64_t n, std::int64_t rows, T* to) {
  const std::int64_t grain = 1 + kElementGrain / std::max<std::int64_t>(1, n);
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(row, n, to + i * n);
  });
}

// How the elements of a and b are walked to give those of their broadcast shape: dimensions that
// are walked alike are merged, so that most cases come down to one or two.
struct BroadcastPlan {
  struct Dim {
    std::int64_t size = 0;
    std::int64_t a_stride = 0, b_stride = 0;  // in elements; 0 where an operand is stretched
  };
  Shape shape;
  InlineVector<Dim, 4> dims;  // outermost first; never empty
};
BroadcastPlan plan_broadcast(std::string_view op, const Shape& a, const Shape& b);

namespace detail {

// out[i] = f(a[i·sa], b[i·sb]), with strides of 0 or 1 known to the compiler where it matters.
template <class T, class Out, class F>
void zip_run(const T* a, std::int64_t sa, const T* b, std::int64_t sb, Out* out, std::int64_t n,
             const F& f) {
  if (sa == 1 && sb == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  } else if (sa == 1 && sb == 0) {
    const T y = *b;
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], y);
  } else if (sa == 0 && sb == 1) {
    const T x = *a;
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(x, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * sa], b[i * sb]);
  }
}

// Calls run(a_offset, b_offset, begin, end) for each stretch of [begin, end) in one innermost row.
template <class Run>
void walk_rows(const BroadcastPlan& plan, std::int64_t begin, std::int64_t end, const Run& run) {
  const std::int64_t inner = plan.dims.back().size;
  for (std::int64_t i = begin; i < end;) {
    std::int64_t row = i / inner;
    const std::int64_t column = i % inner;
    std::int64_t a = column * plan.dims.back().a_stride, b = column * plan.dims.back().b_stride;
    for (std::size_t d = plan.dims.size() - 1; d-- > 0; row /= plan.dims[d].size) {
      const std::int64_t index = row % plan.dims[d].size;
      a += index * plan.dims[d].a_stride;
      b += index * plan.dims[d].b_stride;
    }
    const std::int64_t stop = std::min(end, i + inner - column);
    run(a, b, i, stop);
    i = stop;
  }
}

}  // namespace detail

// out = f(a, b) along a plan. `out` may be a, if a has the plan's shape.
template <class T, class Out, class F>
void zip_to(const BroadcastPlan& plan, const T* a, const T* b, Out* out, const F& f) {
  const auto [inner, sa, sb] = plan.dims.back();
  parallel_for(plan.shape.numel(), kElementGrain, [&, sa = sa, sb = sb](auto begin, auto end) {
    detail::walk_rows(plan, begin, end, [&](auto ia, auto ib, auto i, auto stop) {
      detail::zip_run(a + ia, sa, b + ib, sb, out + i, stop - i, f);
    });
  });
}

// The tensor f(a, b) with broadcasting. Its elements are of the type Out, or else of the type of
// a's. Error if the dtypes differ or the shapes do not broadcast.
template <class Out = void, class F>
Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, const F& f) {
  check(a.dtype() == b.dtype(), "[{}] dtypes differ: {} and {}", op, name_of(a.dtype()),
        name_of(b.dtype()));
  const BroadcastPlan plan = plan_broadcast(op, a.shape(), b.shape());
  return dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Element = std::conditional_t<std::is_void_v<Out>, T, Out>;
    Tensor out = Tensor::empty(plan.shape, dtype_of<Element>());
    zip_to(plan, a.data<T>(), b.data<T>(), out.mutable_data<Element>(), f);
    return out;
  });
}

// sum += term, elementwise; both of one shape and dtype.
void add_in_place(Tensor& sum, const Tensor& term);

}  // namespace tapegrad
