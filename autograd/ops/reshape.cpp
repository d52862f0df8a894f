#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// Copies a block of (outer, n, inner) between two tensors that differ only in the middle dimension.
struct Block {
  std::int64_t outer = 1, inner_bytes = 1;
  Block(const Tensor& t, int dim) : inner_bytes(static_cast<std::int64_t>(size_of(t.dtype()))) {
    for (int i = 0; i < dim; ++i) outer *= t.dim(i);
    for (int i = dim + 1; i < t.rank(); ++i) inner_bytes *= t.dim(i);
  }
  void copy(std::byte* to, std::int64_t to_n, std::int64_t to_begin, const std::byte* from,
            std::int64_t from_n, std::int64_t from_begin, std::int64_t n) const {
    const std::int64_t row = n * inner_bytes;
    if (row == 0) return;
    parallel_for(outer, std::max<std::int64_t>(1, 4 * kElementGrain / row),
                 [=, this](auto begin, auto end) {
                   for (auto o = begin; o < end; ++o) {
                     std::memcpy(to + (o * to_n + to_begin) * inner_bytes,
                                 from + (o * from_n + from_begin) * inner_bytes,
                                 static_cast<std::size_t>(row));
                   }
                 });
  }
};

const std::byte* bytes_of(const Tensor& t) {
  return dispatch_all(t.dtype(), [&](auto zero) {
    return reinterpret_cast<const std::byte*>(t.data<decltype(zero)>());
  });
}
std::byte* mutable_bytes_of(Tensor& t) {
  return dispatch_all(t.dtype(), [&](auto zero) {
    return reinterpret_cast<std::byte*>(t.mutable_data<decltype(zero)>());
  });
}

Tensor permuted(const Tensor& x, const std::vector<int>& order, const Shape& shape) {
  Tensor out = Tensor::empty(shape, x.dtype());
  std::vector<std::int64_t> x_strides(order.size(), 1), strides;
  for (int i = x.rank() - 1; i-- > 0;) {
    const auto k = static_cast<std::size_t>(i);
    x_strides[k] = x_strides[k + 1] * x.dim(i + 1);
  }
  for (const int from : order) strides.push_back(x_strides[static_cast<std::size_t>(from)]);
  const std::int64_t inner = shape.rank() == 0 ? 1 : shape[-1];
  const std::int64_t step = strides.empty() ? 1 : strides.back();
  const auto row_offset = [&](std::int64_t row) {
    std::int64_t offset = 0;
    for (int d = shape.rank() - 1; d-- > 0; row /= shape[d]) {
      offset += row % shape[d] * strides[static_cast<std::size_t>(d)];
    }
    return offset;
  };
  dispatch_all(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = out.mutable_data<T>();
    if (inner == 0) return;
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / inner);
    parallel_for(out.numel() / inner, grain, [&](std::int64_t begin, std::int64_t end) {
      if (step == 1) {
        for (std::int64_t row = begin; row < end; ++row) {
          std::copy_n(from + row_offset(row), inner, to + row * inner);
        }
        return;
      }
      // Some rows at once: what they read is often side by side, and comes in one cache line.
      constexpr std::int64_t kRows = 16;
      std::array<const T*, kRows> read{};
      for (std::int64_t row = begin; row < end; row += kRows) {
        const std::int64_t rows = std::min(kRows, end - row);
        for (std::int64_t k = 0; k < rows; ++k) {
          read[static_cast<std::size_t>(k)] = from + row_offset(row + k);
        }
        for (std::int64_t i = 0; i < inner; ++i) {
          for (std::int64_t k = 0; k < rows; ++k) {
            to[(row + k) * inner + i] = read[static_cast<std::size_t>(k)][i * step];
          }
        }
      }
    });
  });
  return out;
}

bool have_different_integers(const std::vector<Tensor>& parts) {
  const auto is_integer = [](const Tensor& t) { return !is_float(t.dtype()); };
  const auto differs = [&](const Tensor& t) { return t.dtype() != parts[0].dtype(); };
  return std::all_of(parts.begin(), parts.end(), is_integer) &&
         std::any_of(parts.begin(), parts.end(), differs);
}

std::vector<Tensor> as_one_dtype(const std::vector<Tensor>& parts) {
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) dtype = promoted("concat", dtype, part.dtype());
  std::vector<Tensor> converted;
  for (const Tensor& part : parts) converted.push_back(part.to(dtype));
  return converted;
}

bool is_nothing(const Tensor& t) { return t.shape() == Shape{0}; }

// The parts but for those of shape (0), which fit all others of their dtype. Where there are only
// such, all.
std::vector<Tensor> without_nothings(const std::vector<Tensor>& parts) {
  const auto first = std::find_if_not(parts.begin(), parts.end(), is_nothing);
  if (first == parts.end()) return parts;
  std::vector<Tensor> rest;
  for (const Tensor& part : parts) {
    if (!is_nothing(part) || part.dtype() != first->dtype()) rest.push_back(part);
  }
  return rest;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& wanted) {
  return infer_shape(wanted, x.numel()) == x.shape() ? x : x.view(wanted);
}

Tensor permute(const Tensor& x, const std::vector<int>& wanted) {
  check(static_cast<int>(wanted.size()) == x.rank(), "[permute] {} dimensions named for shape {}",
        wanted.size(), x.shape());
  std::vector<int> order, inverse(wanted.size(), -1);
  Shape shape;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const int from = axis_index("permute", x.shape(), wanted[i]);
    check(inverse[static_cast<std::size_t>(from)] < 0, "[permute] dimension {} is named twice",
          from);
    inverse[static_cast<std::size_t>(from)] = static_cast<int>(i);
    order.push_back(from);
    shape.push_back(x.dim(from));
  }
  return apply(
      "permute", {x}, [=](Inputs in, Saved&) { return permuted(in[0], order, shape); },
      [inverse](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {permute(dy, inverse)};
      },
      {.onnx = [order](OnnxCall& c) {
        return c("Transpose", {c.in(0)}, {{"perm", OnnxWholes(order.begin(), order.end())}});
      }});
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  if (x.rank() == 0) return reshape(transpose(reshape(x, {1}), dim0, dim1), {});
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(axis_index("transpose", x.shape(), dim0))],
            order[static_cast<std::size_t>(axis_index("transpose", x.shape(), dim1))]);
  return permute(x, order);
}

Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::int64_t end) {
  dim = axis_index("slice", x.shape(), dim);
  const std::int64_t asked_begin = begin, asked_end = end, n = x.dim(dim);
  if (begin < 0) begin += n;
  if (end < 0) end += n;
  check(begin >= 0 && begin <= end && end <= n,
        "[slice] elements {} to {} do not exist in dimension {} of {}", asked_begin, asked_end, dim,
        x.shape());
  return apply(
      "slice", {x},
      [=](Inputs in, Saved&) {
        Tensor out = Tensor::empty(in[0].shape().with(dim, end - begin), in[0].dtype());
        Block(out, dim).copy(mutable_bytes_of(out), end - begin, 0, bytes_of(in[0]), in[0].dim(dim),
                             begin, end - begin);
        return out;
      },
      [=](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {pad(dy, dim, begin, n)};
      },
      {.onnx = [=](OnnxCall& c) {
        return c("Slice", {c.in(0), c.wholes({begin}), c.wholes({end}), c.wholes({dim})});
      }});
}

Tensor pad(const Tensor& x, int dim, std::int64_t begin, std::int64_t size) {
  dim = axis_index("pad", x.shape(), dim);
  const std::int64_t n = x.dim(dim);
  check(begin >= 0 && size >= n && begin <= size - n,
        "[pad] {} elements from {} on do not fit into {}", n, begin, size);
  return apply(
      "pad", {x},
      [=](Inputs in, Saved&) {
        Tensor out = Tensor::zeros(in[0].shape().with(dim, size), in[0].dtype());
        Block(out, dim).copy(mutable_bytes_of(out), size, begin, bytes_of(in[0]), n, 0, n);
        return out;
      },
      [=](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {slice(dy, dim, begin, begin + n)};
      },
      {.onnx = [=, rank = x.rank()](OnnxCall& c) {
        OnnxWholes pads(static_cast<std::size_t>(2 * rank));
        pads[static_cast<std::size_t>(dim)] = begin;
        pads[static_cast<std::size_t>(rank + dim)] = size - n - begin;
        return c("Pad", {c.in(0), c.wholes(pads)});
      }});
}

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  check(!parts.empty(), "[concat] there is nothing to join");
  if (have_different_integers(parts)) return concat(as_one_dtype(parts), dim);
  if (std::any_of(parts.begin(), parts.end(), is_nothing)) {
    const std::vector<Tensor> rest = without_nothings(parts);
    if (rest.size() < parts.size()) return concat(rest, dim);
  }
  dim = axis_index("concat", parts[0].shape(), dim);
  std::vector<std::int64_t> sizes;
  for (const Tensor& part : parts) {
    check(part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype() &&
              part.shape().with(dim, 0) == parts[0].shape().with(dim, 0),
          "[concat] {} {} does not fit {} {} along dimension {}", part.shape(),
          name_of(part.dtype()), parts[0].shape(), name_of(parts[0].dtype()), dim);
    sizes.push_back(part.dim(dim));
  }
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto forward = [=](Inputs in, Saved&) {
    Tensor out = Tensor::empty(in[0].shape().with(dim, total), in[0].dtype());
    std::int64_t begin = 0;
    for (const Tensor& part : in) {
      const std::int64_t n = part.dim(dim);
      Block(out, dim).copy(mutable_bytes_of(out), total, begin, bytes_of(part), n, 0, n);
      begin += n;
    }
    return std::vector{out};
  };
  const auto vjp = [=](Inputs dys, const Saved&, const Needs&) {
    return split(dys[0], sizes, dim);
  };
  const auto row = [dim](OnnxCall& c) {
    return c("Concat", c.inputs(), {{"axis", std::int64_t{dim}}});
  };
  return apply_many("concat", parts, forward, vjp, {.onnx = row})[0];
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  dim = axis_index("split", x.shape(), dim);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  check(total == x.dim(dim), "[split] sizes add up to {}, but dimension {} of {} has {}", total,
        dim, x.shape(), x.dim(dim));
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    check(size >= 0, "[split] a part of {} elements", size);
    parts.push_back(slice(x, dim, begin, begin + size));
    begin += size;
  }
  return parts;
}

}  // namespace tapegrad
