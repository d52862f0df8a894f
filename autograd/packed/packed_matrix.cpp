#include "tapegrad/autograd/packed/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tapegrad/autograd/packed/packed_ways.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

std::int64_t panels_of(std::int64_t rows) { return (rows + packed::kRows - 1) / packed::kRows; }

// Without a branch, so that compilers vectorise the loop.
bool all_finite(std::span<const float> values) {
  bool odd = false;
  for (const float x : values)
    odd |= (std::bit_cast<std::uint32_t>(x) & 0x7f800000U) == 0x7f800000U;
  return !odd;
}

// Rows of a stored matrix, read and converted to another type.
class RowReader {
 public:
  RowReader(const StoredTensor& from, const StoredType& as)
      : from_(from), as_(as), in_(from.shape()[1]), row_bytes_(bytes_of_row(as)) {}

  // Rows [first, first + count) as `as`, one behind the other.
  const std::byte* read(std::int64_t first, std::int64_t count) {
    const std::int64_t stored_row = bytes_of_row(from_.type());
    stored_.resize(static_cast<std::size_t>(count * stored_row));
    check(
        from_.read(static_cast<std::uint64_t>(first * stored_row), stored_.data(), stored_.size()),
        "reading it failed");
    const std::int64_t n = count * in_;
    floats_.resize(static_cast<std::size_t>(n));
    from_.type().to_f32(stored_.data(), n, floats_.data());
    check(all_finite(floats_), "it has values that are not numbers: the file is broken");
    if (&from_.type() == &as_) return stored_.data();
    converted_.resize(static_cast<std::size_t>(count * row_bytes_));
    const std::int64_t fits = as_.from_f32(floats_.data(), n, converted_.data());
    check(fits == n, "element ({}, {}), {}, does not fit {}", first + fits / in_, fits % in_,
          floats_[static_cast<std::size_t>(std::min(fits, n - 1))], as_.name);
    return converted_.data();
  }
  std::int64_t row_bytes() const { return row_bytes_; }

 private:
  std::int64_t bytes_of_row(const StoredType& type) const {
    return in_ / type.block * type.block_bytes;
  }

  const StoredTensor& from_;
  const StoredType& as_;
  std::int64_t in_, row_bytes_;
  std::vector<std::byte> stored_, converted_;
  std::vector<float> floats_;
};

}  // namespace

bool PackedMatrix::can_pack(const StoredType& type, std::int64_t in) {
  const packed::PackedWay* way = packed::find_way(type.name);
  return way != nullptr && in % way->elements == 0;
}

PackedMatrix::PackedMatrix(const StoredTensor& from, const StoredType& as)
    : type_(&as), way_(packed::find_way(as.name)) {
  check(from.shape().rank() == 2 && from.shape().numel() > 0, "{} of shape {} is no matrix",
        from.label(), from.shape());
  out_ = from.shape()[0], in_ = from.shape()[1];
  check(can_pack(as, in_), "{}: rows of {} elements cannot be packed as {}", from.label(), in_,
        as.name);
  panel_bytes_ = way_->panel_bytes(in_);
  panels_ = std::make_unique<Scratch>(static_cast<std::size_t>(bytes()));
  from.is_transposed() ? fill(StoredTensor(from.widened(DType::f32), from.label())) : fill(from);
}

PackedMatrix::~PackedMatrix() = default;

std::uint64_t PackedMatrix::bytes() const {
  return static_cast<std::uint64_t>(panels_of(out_) * panel_bytes_);
}

void PackedMatrix::fill(const StoredTensor& from) try {
  const bool as_is = &from.type() == type_;
  check(from.type().to_f32 != nullptr && (as_is || type_->from_f32 != nullptr),
        "{} cannot be converted to {}", from.type().name, type_->name);
  auto* const panels = static_cast<std::uint8_t*>(panels_->data());
  parallel_for(panels_of(out_), 1, [&](std::int64_t begin, std::int64_t end) {
    RowReader reader(from, *type_);
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * packed::kRows;
      const std::int64_t count = std::min(packed::kRows, out_ - first);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(reader.read(first, count));
      const std::uint8_t* rows[packed::kRows] = {};
      for (std::int64_t r = 0; r < count; ++r) rows[r] = bytes + r * reader.row_bytes();
      way_->pack(rows, in_, panels + panel * panel_bytes_);
    }
  });
} catch (const Error& error) {
  fail("{}: {}", from.label(), error.what());
}

std::span<const std::byte> PackedMatrix::memory() const {
  return {static_cast<const std::byte*>(panels_->data()), static_cast<std::size_t>(bytes())};
}

Tensor PackedMatrix::unpacked() const {
  Tensor all = Tensor::empty(shape());
  float* const to = all.mutable_data<float>();
  const auto* panels = static_cast<const std::uint8_t*>(panels_->data());
  parallel_for(out_, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      way_->unpack(panels + i / packed::kRows * panel_bytes_, in_, i % packed::kRows, to + i * in_);
    }
  });
  return all;
}

Tensor PackedMatrix::rows(const Tensor& ids) const {
  Shape shape = ids.shape();
  shape.push_back(in_);
  Tensor chosen = Tensor::empty(shape);
  float* to = chosen.mutable_data<float>();
  const auto* panels = static_cast<const std::uint8_t*>(panels_->data());
  for (const std::int32_t id : ids.values<std::int32_t>()) {
    check(id >= 0 && id < out_, "[embedding] there is no row {} of {}", id, out_);
    way_->unpack(panels + id / packed::kRows * panel_bytes_, in_, id % packed::kRows, to);
    to += in_;
  }
  return chosen;
}

std::string_view packed_kernels() { return packed::kernel_sets().back().name; }

}  // namespace tapegrad
