#include <cstdint>
#include <limits>
#include <vector>

#include "tapegrad/autograd/kernels/internal/axis.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  check(x.rank() >= 1, "[select] a scalar has nothing to select from");
  dim = axis_index("select", x.shape(), dim);
  const std::int64_t size = x.dim(dim);
  check(index >= -size && index < size, "[select] there is no index {} in dimension {} of {}",
        index, dim, x.shape());
  const std::int64_t begin = index < 0 ? index + size : index;
  return reshape(slice(x, dim, begin, begin + 1), x.shape().without(dim));
}

Tensor Tensor::operator[](std::initializer_list<Subscript> subscripts) const {
  check(static_cast<int>(subscripts.size()) <= rank(), "[index] {} subscripts for shape {}",
        subscripts.size(), shape());
  Tensor part = *this;
  int place = 0, kept = 0;  // dimensions of this tensor and of the part
  for (const Subscript& subscript : subscripts) {
    const std::int64_t size = dim(place);
    auto [begin, end] = subscript.range;
    if (subscript.is_index) {
      check(begin >= -size && begin < size, "[index] there is no index {} in dimension {} of {}",
            begin, place, shape());
      part = select(part, kept, begin);
    } else {
      if (end == Range::kToTheEnd) end = size;
      const std::int64_t first = begin < 0 ? begin + size : begin;
      const std::int64_t last = end < 0 ? end + size : end;
      check(first >= 0 && first <= last && last <= size,
            "[index] elements {} to {} do not exist in dimension {} of {}", begin, end, place,
            shape());
      if (first != 0 || last != size) part = slice(part, kept, first, last);
      ++kept;
    }
    ++place;
  }
  // A part is a copy even if it is everything.
  return part.id() == id() && rank() > 0 ? slice(part, 0, 0, dim(0)) : part;
}

Tensor Tensor::operator[](std::int64_t index) const { return (*this)[{Subscript(index)}]; }

Tensor index(const Tensor& x, const std::vector<Tensor>& ids) {
  const int count = static_cast<int>(ids.size());
  check(count >= 1 && count <= x.rank(), "[index] {} indices for a tensor of shape {}", count,
        x.shape());
  Shape shape;  // of the indices
  for (const Tensor& t : ids) {
    check(t.dtype() == DType::i32 || t.dtype() == DType::i64,
          "[index] indices must be i32 or i64, not {}", name_of(t.dtype()));
    shape = broadcast_shapes("index", shape, t.shape());
  }
  // The leading dimensions become one, in which each place has one number.
  std::vector<std::int64_t> flat(static_cast<std::size_t>(shape.numel()));
  std::int64_t rows = 1;
  for (int dim = 0; dim < count; ++dim) {
    const std::int64_t size = x.dim(dim);
    const Tensor wide = broadcast_to(ids[static_cast<std::size_t>(dim)].to(DType::i64), shape);
    const auto values = wide.values<std::int64_t>();
    for (std::size_t i = 0; i < flat.size(); ++i) {
      const std::int64_t id = values[i];
      check(id >= -size && id < size, "[index] there is no index {} in dimension {} of {}", id, dim,
            x.shape());
      flat[i] = flat[i] * size + (id < 0 ? id + size : id);
    }
    rows *= size;
  }
  check(rows <= std::int64_t{1} << 31, "[index] {} has too many places to index", x.shape());
  Shape merged{rows};
  for (int dim = count; dim < x.rank(); ++dim) merged.push_back(x.dim(dim));
  const std::vector<std::int32_t> row_ids(flat.begin(), flat.end());
  return gather_rows(reshape(x, merged), Tensor::from(row_ids, shape));
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check(is_mask(mask.dtype()), "[masked_select] the mask must be bool or u8, not {}",
        name_of(mask.dtype()));
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Tensor flat = broadcast_to(mask, shape).view({shape.numel()});
  return gather_rows(reshape(broadcast_to(x, shape), {shape.numel()}), squeeze(nonzero(flat), 1));
}

Tensor nonzero(const Tensor& x) {
  check(x.numel() <= std::numeric_limits<std::int32_t>::max(), "[nonzero] {} has too many elements",
        x.shape());
  const Tensor found = ne(x, 0);
  const auto values = found.values<std::uint8_t>();
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    auto rest = static_cast<std::int64_t>(i);
    const std::size_t first = places.size();
    places.resize(first + static_cast<std::size_t>(x.rank()));
    for (int dim = x.rank(); dim-- > 0; rest /= x.dim(dim)) {
      places[first + static_cast<std::size_t>(dim)] = static_cast<std::int32_t>(rest % x.dim(dim));
    }
  }
  const auto rank = static_cast<std::size_t>(x.rank());
  // A scalar has no indices, but one row of them if it is not 0.
  const std::size_t count = rank > 0 ? places.size() / rank : ne(x, 0).item() != 0;
  return Tensor::from(places, {static_cast<std::int64_t>(count), x.rank()});
}

}  // namespace tapegrad
