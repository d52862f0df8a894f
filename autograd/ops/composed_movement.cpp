// Ops composed of other ops: none has a derivative of its own.

#include <algorithm>
#include <numeric>

#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/ids.h"

namespace tapegrad {
namespace {

// The dimensions of a tensor of that rank with the first and dim exchanged: its own inverse.
std::vector<int> exchanged(int rank, int dim) {
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<std::size_t>(dim)]);
  return order;
}

// 1 where keeps(column - row), of the matrices of x.
template <class Keeps>
Tensor masked_matrices(std::string_view op, const Tensor& x, const Keeps& keeps) {
  check(x.rank() >= 2, "[{}] {} has no matrices", op, x.shape());
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  Tensor mask = Tensor::empty({rows, columns}, DType::u8);
  auto* to = mask.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < rows * columns; ++i) to[i] = keeps(i % columns - i / columns);
  return where(mask, x, Tensor::scalar(0, x.dtype()));
}

}  // namespace

MaxResult min(const Tensor& x, int dim, bool keepdim) {
  check(x.rank() == 0 || x.dim(axis_index("min", x.shape(), dim)) > 0,
        "[min] dimension {} of {} is empty", dim, x.shape());
  if (x.rank() > 0) check_indices_fit("min", x.shape(), dim);
  if (!is_float(x.dtype())) {
    const auto [values, indices] = topk(x, 1, dim, false);
    if (keepdim || x.rank() == 0) return {values, indices};
    return {squeeze(values, dim), squeeze(indices, dim)};
  }
  const MaxResult result = max(-x, dim, keepdim);
  return {-result.values, result.indices};
}

Tensor index_select(const Tensor& x, int dim, const Tensor& ids) {
  check(ids.rank() == 1, "[index_select] ids must have one dimension, not {}", ids.shape());
  dim = axis_index("index_select", x.shape(), dim);
  if (dim == 0) return gather_rows(x, ids);
  const std::vector<int> order = exchanged(x.rank(), dim);
  return permute(gather_rows(permute(x, order), ids), order);
}

Tensor unsqueeze(const Tensor& x, int dim) {
  const int rank = x.rank() + 1;
  check(dim >= -rank && dim < rank, "[unsqueeze] there is no dimension {} in a result of {}", dim,
        rank);
  return reshape(x, x.shape().inserted(dim < 0 ? dim + rank : dim, 1));
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  for (const std::int64_t size : x.shape()) {
    if (size != 1) shape.push_back(size);
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int dim) {
  dim = axis_index("squeeze", x.shape(), dim);
  return x.dim(dim) == 1 ? reshape(x, x.shape().without(dim)) : x;
}

Tensor flatten(const Tensor& x, int first, int last) {
  if (x.rank() == 0) return reshape(x, {1});
  first = axis_index("flatten", x.shape(), first);
  last = axis_index("flatten", x.shape(), last);
  check(first <= last, "[flatten] dimension {} is behind {} in {}", first, last, x.shape());
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(x.dim(i));
  std::int64_t size = 1;
  for (int i = first; i <= last; ++i) size *= x.dim(i);
  shape.push_back(size);
  for (int i = last + 1; i < x.rank(); ++i) shape.push_back(x.dim(i));
  return reshape(x, shape);
}

Tensor stack(const std::vector<Tensor>& parts, int dim) {
  check(!parts.empty(), "[stack] there is nothing to stack");
  std::vector<Tensor> wide;
  for (const Tensor& part : parts) {
    check(part.shape() == parts[0].shape(), "[stack] shapes differ: {} and {}", parts[0].shape(),
          part.shape());
    wide.push_back(unsqueeze(part, dim));
  }
  return concat(wide, dim);
}

std::vector<Tensor> chunk(const Tensor& x, int count, int dim) {
  check(count >= 1, "[chunk] {} parts", count);
  const std::int64_t n = x.dim(axis_index("chunk", x.shape(), dim));
  const std::int64_t size = (n + count - 1) / count;
  // Nothing is shared out as `count` times nothing.
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(n == 0 ? count : n / size), size);
  if (n > 0 && n % size != 0) sizes.push_back(n % size);
  return split(x, sizes, dim);
}

Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& times) {
  const int rank = static_cast<int>(times.size()), more = rank - x.rank();
  check(more >= 0, "[repeat] {} numbers for the {} dimensions of {}", rank, x.rank(), x.shape());
  Shape shape = x.shape();
  for (int i = 0; i < more; ++i) shape = shape.inserted(0, 1);
  Tensor y = reshape(x, shape);
  for (int i = 0; i < rank; ++i) {
    const std::int64_t n = times[static_cast<std::size_t>(i)];
    check(n >= 0, "[repeat] {} times", n);
    if (n == 1) continue;
    const Axis axis(y.shape(), i);
    const std::int64_t row = axis.n * axis.inner;
    const Tensor wide = broadcast_to(reshape(y, {axis.outer, 1, row}), {axis.outer, n, row});
    y = reshape(wide, y.shape().with(i, n * axis.n));
  }
  return y;
}

Tensor flip(const Tensor& x, int dim) {
  dim = axis_index("flip", x.shape(), dim);
  const auto n = static_cast<double>(x.dim(dim));
  return index_select(x, dim, Tensor::arange(n - 1, -1, -1, DType::i32));
}

Tensor roll(const Tensor& x, std::int64_t by, int dim) {
  dim = axis_index("roll", x.shape(), dim);
  const std::int64_t n = x.dim(dim);
  if (n == 0) return x;
  const std::int64_t first = (n - by % n) % n;  // what comes to the front
  return first == 0 ? x : concat({slice(x, dim, first, n), slice(x, dim, 0, first)}, dim);
}

Tensor tril(const Tensor& x, int diagonal) {
  return masked_matrices("tril", x, [=](std::int64_t right) { return right <= diagonal; });
}

Tensor triu(const Tensor& x, int diagonal) {
  return masked_matrices("triu", x, [=](std::int64_t right) { return right >= diagonal; });
}

Tensor one_hot(const Tensor& given, std::int64_t classes, DType dtype) {
  const Tensor ids = ids_as_i32("one_hot", "ids", given);
  check(classes >= 0, "[one_hot] {} classes", classes);
  Shape shape = ids.shape();
  shape.push_back(classes);
  Tensor out = Tensor::zeros(shape, dtype);
  dispatch_all(dtype, [&](auto zero) {
    auto* to = out.mutable_data<decltype(zero)>();
    for (const std::int32_t id : ids.values<std::int32_t>()) {
      check(id >= 0 && id < classes, "[one_hot] id {} is outside the {} classes", id, classes);
      to[id] = 1;
      to += classes;
    }
  });
  return out;
}

}  // namespace tapegrad
