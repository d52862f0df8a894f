#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/ids.h"

namespace tapegrad {
namespace {

// The gradient of gather_rows: row i of dy added to row ids[i] of zeros (rows, …).
Tensor scatter_rows(const Tensor& dy, const Tensor& ids, std::int64_t rows);

// The ids as i32, each of them a row.
Tensor checked_ids(std::string_view op, const Tensor& given, std::int64_t rows) {
  const Tensor ids = ids_as_i32(op, "ids", given);
  const auto values = ids.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(values[i] >= 0 && values[i] < rows, "[{}] id {} at position {} is outside the {} rows",
          op, values[i], i, rows);
  }
  return ids;
}

// Rows of x that ids name, copied to `out`.
template <class T>
void copy_rows(const T* x, const Tensor& ids, std::int64_t row, T* out) {
  const std::int32_t* id = ids.data<std::int32_t>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, row));
  parallel_for(ids.numel(), grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(x + id[i] * row, row, out + i * row);
  });
}

// Threads share out the columns, so that repeated ids add up in one order, whatever their number.
template <class T>
void add_rows(const T* dy, const Tensor& ids, std::int64_t row, T* out) {
  const std::int32_t* id = ids.data<std::int32_t>();
  const std::int64_t n = ids.numel();
  parallel_for(row, std::max<std::int64_t>(16, kElementGrain / std::max<std::int64_t>(1, n)),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = 0; i < n; ++i) {
                   T* to = out + id[i] * row;
                   for (std::int64_t j = begin; j < end; ++j) to[j] += dy[i * row + j];
                 }
               });
}

Tensor scatter_rows(const Tensor& dy, const Tensor& ids, std::int64_t rows) {
  return apply(
      "scatter_rows", {dy},
      [=](Inputs in, Saved& saved) {
        saved.keep(ids);
        const auto row_dims = std::span(in[0].shape().begin(), in[0].shape().end())
                                  .subspan(static_cast<std::size_t>(ids.rank()));
        Tensor out = Tensor::zeros(Shape(row_dims).inserted(0, rows), in[0].dtype());
        dispatch(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          add_rows(in[0].template data<T>(), ids, Shape(row_dims).numel(), out.mutable_data<T>());
        });
        return out;
      },
      [](const Tensor& ddx, const Saved& saved, const Needs&) -> Grads {
        return {gather_rows(ddx, saved[0])};
      });
}

// The walk of gather and its gradient: a tensor (outer, n, inner) and the places (outer, k, inner).
struct Places {
  Axis axis;
  std::int64_t k;

  // Calls visit(place, element) for each place and the element that it names, as flat indices.
  // Threads share out `outer`, so that repeated elements come in one order.
  template <class Visit>
  void walk(const Tensor& index, const Visit& visit) const {
    const std::int32_t* id = index.data<std::int32_t>();
    const std::int64_t block = k * axis.inner, n = axis.n, inner = axis.inner;
    parallel_for(axis.outer, kElementGrain / std::max<std::int64_t>(1, block) + 1,
                 [=](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t o = begin; o < end; ++o) {
                     for (std::int64_t i = 0; i < block; ++i) {
                       const std::int64_t place = o * block + i;
                       visit(place, (o * n + id[place]) * inner + i % inner);
                     }
                   }
                 });
  }
};

Places checked_places(std::string_view op, const Tensor& x, const Tensor& index, int dim) {
  const Axis axis(x.shape(), dim);
  const bool one = index.shape() == x.shape().without(dim);
  check(one || (index.rank() == x.rank() && index.shape().with(dim, 0) == x.shape().with(dim, 0)),
        "[{}] index {} does not fit {} with another dim {} or without it", op, index.shape(),
        x.shape(), dim);
  const auto values = index.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(values[i] >= 0 && values[i] < axis.n, "[{}] index {} at position {} is outside [0, {})",
          op, values[i], i, axis.n);
  }
  return {axis, one ? 1 : index.dim(dim)};
}

// The gradient of gather: dy added to its places in zeros of x's shape.
Tensor scatter(const Tensor& dy, const Tensor& index, const Shape& shape, int dim,
               const Places& places) {
  return apply(
      "scatter", {dy},
      [=](Inputs in, Saved& saved) {
        saved.keep(index);
        Tensor out = Tensor::zeros(shape, in[0].dtype());
        dispatch(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = out.mutable_data<T>();
          places.walk(index, [=](auto place, auto element) { to[element] += from[place]; });
        });
        return out;
      },
      [dim](const Tensor& ddx, const Saved& saved, const Needs&) -> Grads {
        return {gather(ddx, saved[0], dim)};
      });
}

}  // namespace

Tensor gather_rows(const Tensor& x, const Tensor& given) {
  check(x.rank() >= 1, "[gather_rows] a scalar has no rows");
  const Tensor ids = checked_ids("gather_rows", given, x.dim(0));
  return apply(
      "gather_rows", {x},
      [ids](Inputs in, Saved& saved) {
        saved.keep(ids);
        const Shape row = in[0].shape().without(0);
        Shape shape = ids.shape();
        for (const std::int64_t size : row) shape.push_back(size);
        Tensor out = Tensor::empty(shape, in[0].dtype());
        dispatch_all(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          copy_rows(in[0].template data<T>(), ids, row.numel(), out.mutable_data<T>());
        });
        return out;
      },
      [rows = x.dim(0)](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {scatter_rows(dy, saved[0], rows)};
      },
      {.add =
           [row = x.shape().without(0).numel()](const Tensor& dy, const Saved& saved, Tensor& sum) {
             dispatch(sum.dtype(), [&](auto zero) {
               using T = decltype(zero);
               add_rows(dy.data<T>(), saved[0], row, sum.mutable_data<T>());
             });
           },
       .onnx =
           [given](OnnxCall& c) {
             return c("Gather", {c.in(0), c.value(given)});
           }});
}

Tensor gather(const Tensor& x, const Tensor& given, int dim) {
  const Tensor index = ids_as_i32("gather", "the index", given);
  dim = axis_index("gather", x.shape(), dim);
  const Places places = checked_places("gather", x, index, dim);
  return apply(
      "gather", {x},
      [=](Inputs in, Saved& saved) {
        saved.keep(index);
        Tensor out = Tensor::empty(index.shape(), in[0].dtype());
        dispatch_all(out.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = out.mutable_data<T>();
          places.walk(index, [=](auto place, auto element) { to[place] = from[element]; });
        });
        return out;
      },
      [=, shape = x.shape()](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {scatter(dy, saved[0], shape, dim, places)};
      },
      {.onnx = [given, dim](OnnxCall& c) {
        const bool one = given.rank() < c.tensors[0].rank();
        const OnnxValue axis = c.wholes({dim}), index = c.value(given);
        const OnnxValue y =
            c("GatherElements", {c.in(0), one ? c("Unsqueeze", {index, axis}) : index},
              {{"axis", std::int64_t{dim}}});
        return one ? c("Squeeze", {y, axis}) : y;
      }});
}

Tensor scatter_add(const Tensor& x, const Tensor& given, const Tensor& source, int dim) {
  const Tensor index = ids_as_i32("scatter_add", "the index", given);
  dim = axis_index("scatter_add", x.shape(), dim);
  const Places places = checked_places("scatter_add", x, index, dim);
  check(source.shape() == index.shape(),
        "[scatter_add] the shapes of index {} and source {} differ", index.shape(), source.shape());
  return x + scatter(source, index, x.shape(), dim, places);
}

Tensor index_add(const Tensor& x, int dim, const Tensor& given, const Tensor& source) {
  dim = axis_index("index_add", x.shape(), dim);
  check(given.rank() == 1, "[index_add] ids must have one dimension, not {}", given.shape());
  check(source.shape() == x.shape().with(dim, given.dim(0)),
        "[index_add] source {} does not fit {} with {} ids in dimension {}", source.shape(),
        x.shape(), given.dim(0), dim);
  const Tensor ids = checked_ids("index_add", given, x.dim(dim));
  if (dim == 0) return x + scatter_rows(source, ids, x.dim(0));
  const Tensor sums = scatter_rows(transpose(source, 0, dim), ids, x.dim(dim));
  return x + transpose(sums, 0, dim);
}

}  // namespace tapegrad
