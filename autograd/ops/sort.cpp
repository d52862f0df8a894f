#include <algorithm>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

template <class T>
struct Entry {
  T value;
  std::int32_t index;
};

// Equal values in the order of their indices, which makes any sort a stable one.
template <bool descending, class T>
bool goes_first(const Entry<T>& a, const Entry<T>& b) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a.value < b.value || (b_nan && !a_nan)) return !descending;
  if (b.value < a.value || (a_nan && !b_nan)) return descending;
  return a.index < b.index;
}

// The indices of the first k elements of each line along the axis, in order, to `out`
// (outer, k, inner).
template <bool descending, class T>
void first_of_lines(const T* x, const Axis& axis, std::int64_t k, std::int32_t* out) {
  const std::int64_t inner = axis.inner, n = axis.n;
  if (k == 0) return;  // without indices, there is no data to point into
  const std::int64_t grain = kElementGrain / 16 / std::max<std::int64_t>(1, n) + 1;
  parallel_for(axis.outer * inner, grain, [=](std::int64_t begin, std::int64_t end) {
    std::vector<Entry<T>> line(static_cast<std::size_t>(n));
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = x + i / inner * n * inner + i % inner;
      for (std::int64_t j = 0; j < n; ++j) {
        line[static_cast<std::size_t>(j)] = {from[j * inner], static_cast<std::int32_t>(j)};
      }
      if (k == n) {
        std::sort(line.begin(), line.end(), goes_first<descending, T>);
      } else {
        std::partial_sort(line.begin(), line.begin() + k, line.end(), goes_first<descending, T>);
      }
      std::int32_t* to = out + i / inner * k * inner + i % inner;
      for (std::int64_t j = 0; j < k; ++j) to[j * inner] = line[static_cast<std::size_t>(j)].index;
    }
  });
}

SortResult first_sorted(std::string_view op, const Tensor& x, std::int64_t k, int dim,
                        bool descending) {
  const Axis axis(x.shape(), dim);
  check_indices_fit(op, x.shape(), dim);
  Tensor indices = Tensor::empty(x.shape().with(dim, k), DType::i32);
  auto* out = indices.mutable_data<std::int32_t>();
  dispatch_all(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    descending ? first_of_lines<true>(from, axis, k, out)
               : first_of_lines<false>(from, axis, k, out);
  });
  return {gather(x, indices, dim), indices};
}

SortResult as_scalars(const SortResult& of_one) {
  return {reshape(of_one.values, {}), of_one.indices.view({})};
}

}  // namespace

SortResult sort(const Tensor& x, int dim, bool descending) {
  if (x.rank() == 0) return as_scalars(sort(reshape(x, {1}), dim, descending));
  dim = axis_index("sort", x.shape(), dim);
  return first_sorted("sort", x, x.dim(dim), dim, descending);
}

SortResult topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  if (x.rank() == 0 && k == 1) return as_scalars(topk(reshape(x, {1}), 1, dim, largest));
  const std::int64_t n = x.dim(axis_index("topk", x.shape(), dim));
  check(k >= 0 && k <= n, "[topk] k is {}, and dimension {} of {} has {} elements", k, dim,
        x.shape(), n);
  return first_sorted("topk", x, k, dim, largest);
}

}  // namespace tapegrad
