#include "tapegrad/run/models/formats/gguf/internal/gguf_forms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/autograd/ops.h"

namespace tapegrad::run {
namespace {

using Form = GgufTensorName::Form;

// Logarithms of -rates. Of what exp() has rounded, many logarithms have the same exponential: that
// of f64, rounded, is one of them, so that a model computes what it computed before it was written.
Tensor logarithms(const Tensor& rates) {
  std::vector<float> logs;
  for (const float rate : rates.values<float>()) {
    logs.push_back(static_cast<float>(std::log(-static_cast<double>(rate))));
  }
  return Tensor::from(logs, rates.shape());
}

// Rows of the first dimension, in this order.
Tensor rows_from(const Tensor& t, const std::vector<std::int32_t>& rows) {
  const std::int64_t count = std::ssize(rows);
  const Tensor matrix = reshape(t, {t.dim(0), -1});
  return reshape(gather_rows(matrix, Tensor::from(rows, {count})), t.shape().with(0, count));
}

// (…, k·m, n) with the dimension of its parts as one of (…, m, n).
Shape shape_of_part(const Shape& ours, std::int64_t parts) {
  return ours.with(-2, ours[-2] / parts);
}

}  // namespace

bool is_computed(const GgufName& name) {
  return name.plus != 0 || name.is_rate || name.form != Form::same;
}

Shape our_shape(const GgufName& name, const Shape& theirs, std::string_view file) {
  const auto require = [&](bool fits, std::string_view what) {
    check(fits, "{}: '{}' must be {}, not {}", file, name.theirs, what, theirs);
  };
  const bool is_row = theirs.rank() == 2 && theirs[0] == 1;
  switch (name.form) {
    case Form::same:
      require(name.parts == 1 || theirs.rank() > 1, "a matrix");
      require(name.exchanged_heads == 0 || theirs.rank() > 0, "a tensor with rows");
      require(!name.moves_columns() || theirs.rank() == 2, "a matrix");
      require(!name.moves() || theirs.rank() > 0, "a tensor with rows");
      return theirs;
    case Form::squeezed:
      require(theirs.rank() == 2, "a matrix");
      return theirs.inserted(1, 1);
    case Form::column:
      require(theirs.rank() == 2 && theirs[1] == 1, "a column");
      return theirs.without(1);
    case Form::vector:
      if (name.groups > 1) {
        require(theirs.rank() == 2 && theirs[0] == name.groups,
                fmt::format("a matrix of {} rows", name.groups));
        return {theirs.numel()};
      }
      require(theirs.rank() == 1 || is_row, "a vector");
      return theirs.rank() == 1 ? theirs : theirs.without(0);
    case Form::row:
      require(theirs.rank() == 1 || is_row, "a row");
      return is_row ? theirs : theirs.inserted(0, 1);
  }
  fail("no such form of a tensor");
}

Shape file_shape(const GgufName& name, const Shape& ours) {
  if (name.form == Form::squeezed) return ours.without(1);
  if (name.form == Form::column) return ours.inserted(1, 1);
  if (name.groups > 1) return {name.groups, ours[0] / name.groups};
  return name.parts > 1 ? shape_of_part(ours, name.parts) : ours;
}

Tensor our_tensor(const GgufName& name, const Tensor& theirs, std::string_view file) {
  const TapePause pause;
  Tensor t = theirs;
  if (name.is_rate) {
    for (const float rate : t.values<float>()) {
      check(rate < 0 && std::isfinite(rate), "{}: '{}' has {}, and rates of decay are below 0",
            file, name.theirs, rate);
    }
    t = logarithms(t);
  }
  if (name.plus != 0) t = t + -name.plus;
  return reshape(t, our_shape(name, theirs.shape(), file));
}

Tensor file_tensor(const GgufName& name, const Tensor& ours) {
  const TapePause pause;
  Tensor t = ours;
  if (name.parts > 1) {
    const std::int64_t size = ours.dim(-2) / name.parts;
    const int dimension = ours.shape().rank() - 2;
    t = split(ours, std::vector<std::int64_t>(static_cast<std::size_t>(name.parts), size),
              dimension)
            .at(static_cast<std::size_t>(name.part));
  }
  if (name.is_rate) t = -exp(t);
  if (name.plus != 0) t = t + name.plus;
  if (name.exchanged_heads > 0) t = with_heads_exchanged(t, name.exchanged_heads);
  return name.form == Form::same ? t : reshape(t, file_shape(name, ours.shape()));
}

Tensor our_order(const GgufName& name, const Tensor& theirs, const nn::DecoderConfig& config) {
  const TapePause pause;
  std::vector<std::int32_t> from;
  for (std::int64_t i = 0; i < name.count(config); ++i) {
    from.push_back(static_cast<std::int32_t>(name.place(config, i)));
  }
  return name.moves_columns() ? transpose(rows_from(transpose(theirs, 0, 1), from), 0, 1)
                              : rows_from(theirs, from);
}

Tensor file_order(const std::vector<GgufName>& names, const std::vector<Tensor>& ours,
                  const nn::DecoderConfig& config) {
  const TapePause pause;
  std::vector<std::int32_t> places;
  for (const GgufName& name : names) {
    for (std::int64_t i = 0; i < name.count(config); ++i) {
      places.push_back(static_cast<std::int32_t>(name.place(config, i)));
    }
  }
  std::vector<std::int32_t> from(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    from.at(static_cast<std::size_t>(places[i])) = static_cast<std::int32_t>(i);
  }
  const Tensor all = ours.size() == 1 ? ours.front() : concat(ours, 0);
  return names.front().moves_columns() ? transpose(rows_from(transpose(all, 0, 1), from), 0, 1)
                                       : rows_from(all, from);
}

bool can_move(const GgufName& name, const StoredType& type, const nn::DecoderConfig& config) {
  return !name.moves_columns() || name.head_of_columns(config) % type.block == 0;
}

// Heads of columns are rows of a matrix that has a row for each head of each row.
StoredTensor our_order(const GgufName& name, const StoredTensor& theirs,
                       const nn::DecoderConfig& config) {
  const auto place = [name, config](std::int64_t row) { return name.place(config, row); };
  if (!name.moves_columns()) return theirs.rows(name.count(config), place);
  const std::int64_t size = name.head_of_columns(config), heads = theirs.shape()[1] / size;
  const auto bytes_of = [](const StoredTensor& t) {
    return [t](std::uint64_t offset, std::byte* to, std::size_t bytes) {
      return t.read(offset, to, bytes);
    };
  };
  const StoredTensor apart(theirs.type(), {theirs.shape()[0] * heads, size}, bytes_of(theirs),
                           theirs.label());
  const StoredTensor moved = apart.rows(apart.shape()[0], [=](std::int64_t row) {
    return row / heads * heads + place(row % heads * size) / size;
  });
  return {theirs.type(), theirs.shape(), bytes_of(moved), theirs.label()};
}

StoredTensor joined_parts(std::vector<StoredTensor> parts, const std::string& label) {
  const StoredTensor stack = StoredTensor::stack(parts, label);
  const Shape& shape = parts.front().shape();
  const auto count = static_cast<std::uint64_t>(parts.size());
  const std::uint64_t size =
      parts.front().bytes() /
      static_cast<std::uint64_t>(shape.rank() > 2 ? std::max<std::int64_t>(1, shape[0]) : 1);
  // Matrix i of all parts stands before matrix i + 1 of the first one.
  const auto read = [stack, count, size, whole = parts.front().bytes()](
                        std::uint64_t offset, std::byte* to, std::size_t bytes) {
    while (bytes > 0) {
      const std::uint64_t piece = offset / size, within = offset % size;
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - within));
      if (!stack.read(piece % count * whole + piece / count * size + within, to, some)) {
        return false;
      }
      offset += some, to += some, bytes -= some;
    }
    return true;
  };
  return {stack.type(), shape.with(-2, shape[-2] * static_cast<std::int64_t>(count)), read, label};
}

}  // namespace tapegrad::run
