#pragma once

// Ops that move elements: shapes, parts of tensors, and elements that indices name. They work in
// all dtypes, without gradients unless in f32 or f64, and throw Error as the ops of ops.h do. Ids
// and indices are i32 or i64.

#include <cstdint>
#include <optional>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/autograd/weight.h"

namespace tapegrad {

// One size may be -1. Shares the data.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int dim0, int dim1);
// Dimension i of the result is dimension order[i] of x.
Tensor permute(const Tensor& x, const std::vector<int>& order);
// Elements [begin, end) of dim. Negative numbers count from the end: slice(x, 0, -3, -1) has the
// third and the second last.
Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::int64_t end);
// x in a tensor of zeros whose dim has `size` elements, from `begin` on: the derivative of slice.
Tensor pad(const Tensor& x, int dim, std::int64_t begin, std::int64_t size);
// Parts of different integers get the dtype in which all meet. A part of shape (0) fits any others.
Tensor concat(const std::vector<Tensor>& parts, int dim);
// Parts of the given sizes, which must add up to the dimension.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim);
// x[…, index, …] along dim, which is removed: a row, a column. A negative index counts from the
// end.
Tensor select(const Tensor& x, int dim, std::int64_t index);
// x[ids[0][…], ids[1][…], …]: elements of x, or rows if there are fewer ids than dimensions. The
// ids broadcast to a shape (S…), and the result is (S…, the dimensions without ids…).
// Negative ids count from the end; repeated places accumulate their gradients.
Tensor index(const Tensor& x, const std::vector<Tensor>& ids);
// Rows x[ids[i]] of x (N, …), for ids of any shape → (ids…, …). Repeated ids accumulate their
// gradients. Error on an id outside [0, N) with the id and its position.
Tensor gather_rows(const Tensor& x, const Tensor& ids);
// gather_rows of a weight (V, C): ids (B, T) → (B, T, C). The row padding_idx, which counts from
// the end if negative, gets no gradient. Error if there is no such row.
Tensor embedding(const Weight& weight, const Tensor& ids,
                 std::optional<std::int64_t> padding_idx = {});
// x[…, index[…], …] along dim. index has x's shape without dim, or with another size of dim,
// and so has the result. Repeated indices accumulate their gradients. Error on an index outside
// [0, size of dim).
Tensor gather(const Tensor& x, const Tensor& index, int dim);
// x plus source at these places: x[…, index[…], …] gets the elements of source (f32 or f64), which
// add up where places repeat. `index` as in gather(), and source of its shape.
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& source, int dim);

// Rows of any dimension: the elements ids[0], ids[1], … of dim, for ids of one dimension. As
// torch.index_select.
Tensor index_select(const Tensor& x, int dim, const Tensor& ids);
// x plus source at the elements ids[0], ids[1], … of dim; repeated ids add up. source has x's shape
// with as many elements in dim as there are ids. f32 or f64.
Tensor index_add(const Tensor& x, int dim, const Tensor& ids, const Tensor& source);
// The elements of x where mask (bool or u8) is true, in one dimension. x and mask broadcast.
Tensor masked_select(const Tensor& x, const Tensor& mask);
// The indices (count, rank) in i32 of elements that are not 0, in order. Not differentiable.
Tensor nonzero(const Tensor& x);
// A dimension of size 1 more, before dimension dim of x; -1: behind the last one.
Tensor unsqueeze(const Tensor& x, int dim);
// Without all dimensions of size 1, or without dim, if its size is 1.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, int dim);
// Dimensions first to last, both included, as one.
Tensor flatten(const Tensor& x, int first = 0, int last = -1);
// Tensors of one shape side by side along a new dimension.
Tensor stack(const std::vector<Tensor>& parts, int dim = 0);
// At most `count` parts of one size; the last may be smaller.
std::vector<Tensor> chunk(const Tensor& x, int count, int dim = 0);
// x, times[i] times along dimension i. There may be more times than dimensions, of which x then has
// more of size 1 in front. As torch.Tensor.repeat.
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& times);
Tensor flip(const Tensor& x, int dim);  // from the last element of dim to the first
// Element i of dim comes to i + by, and what leaves one end comes in at the other.
Tensor roll(const Tensor& x, std::int64_t by, int dim);
// The matrices (…, M, N) with 0 above the diagonal, or below it. A diagonal of k begins k columns
// to the right.
Tensor tril(const Tensor& x, int diagonal = 0);
Tensor triu(const Tensor& x, int diagonal = 0);
// ids (…) → (…, classes): 1 where the last index is the id, else 0.
Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype = DType::f32);

}  // namespace tapegrad
