#include "tapegrad/autograd/quantized/quantized_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "tapegrad/autograd/quantized/internal/weight_layouts.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

std::int64_t panels_of(std::int64_t rows) {
  return (rows + quantized::kRows - 1) / quantized::kRows;
}

// Without a branch, so that compilers vectorise the loop.
bool all_finite(std::span<const float> values) {
  bool odd = false;
  for (const float x : values)
    odd |= (std::bit_cast<std::uint32_t>(x) & 0x7f800000U) == 0x7f800000U;
  return !odd;
}

void check_finite(bool finite) {
  check(finite, "it has values that are not numbers: the file is broken");
}

// Rows of a matrix as they are stored, read and converted to another type. Of one that is
// transposed, they are the columns.
//
// They are read, not mapped: a file that somebody cuts while it is mapped would end a server with a
// signal, and pages of a mapped file that is packed would stay with the process beside the panels.
// Some rows at a time stay in the processor's cache, so that memory sees the file's bytes once and
// the panels once.
class RowReader {
 public:
  RowReader(const StoredTensor& from, const StoredType& as, const quantized::WeightLayout& layout)
      : from_(from),
        as_(as),
        layout_(layout),
        in_(from.shape()[from.is_transposed() ? 0 : 1]),
        row_bytes_(bytes_of_row(as)) {}

  // Rows [first, first + count) as `as`, one behind the other.
  const std::byte* read(std::int64_t first, std::int64_t count) {
    const std::int64_t stored_row = bytes_of_row(from_.type());
    stored_.resize(static_cast<std::size_t>(count * stored_row));
    check(
        from_.read(static_cast<std::uint64_t>(first * stored_row), stored_.data(), stored_.size()),
        "reading it failed");
    const std::int64_t n = count * in_;
    if (&from_.type() == &as_) {
      check_finite(layout_.all_finite(reinterpret_cast<const std::uint8_t*>(stored_.data()), n));
      return stored_.data();
    }
    floats_.resize(static_cast<std::size_t>(n));
    from_.type().to_f32(stored_.data(), n, floats_.data());
    check_finite(all_finite(floats_));
    converted_.resize(static_cast<std::size_t>(count * row_bytes_));
    const std::int64_t fits = as_.from_f32(floats_.data(), n, converted_.data());
    std::int64_t place[] = {first + fits / in_, fits % in_};
    if (from_.is_transposed()) std::swap(place[0], place[1]);
    check(fits == n, "element ({}, {}), {}, does not fit {}", place[0], place[1],
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
  const quantized::WeightLayout& layout_;
  std::int64_t in_, row_bytes_;
  std::vector<std::byte> stored_, converted_;
  std::vector<float> floats_;
};

// Fills the panels of a matrix.
struct Filling {
  const StoredTensor& from;
  const StoredType& as;
  const quantized::WeightLayout& layout;
  std::int64_t out, in, panel_bytes;
  std::uint8_t* panels;

  void by_rows() const {
    parallel_for(panels_of(out), 1, [&](std::int64_t begin, std::int64_t end) {
      RowReader reader(from, as, layout);
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const std::int64_t first = panel * quantized::kRows;
        const std::int64_t count = std::min(quantized::kRows, out - first);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(reader.read(first, count));
        const std::uint8_t* rows[quantized::kRows] = {};
        for (std::int64_t r = 0; r < count; ++r) rows[r] = bytes + r * reader.row_bytes();
        layout.pack(rows, in, panels + panel * panel_bytes);
      }
    });
  }

  // Of a transposed matrix: what is stored as a row is a column of all panels.
  void by_columns() const {
    constexpr std::int64_t kTile = 16;  // columns at a time
    parallel_for((in + kTile - 1) / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
      RowReader reader(from, as, layout);
      for (std::int64_t first = begin * kTile; first < std::min(in, end * kTile); first += kTile) {
        const std::int64_t count = std::min(kTile, in - first);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(reader.read(first, count));
        for (std::int64_t row = 0; row < out; row += quantized::kRows) {
          std::uint8_t* const panel = panels + row / quantized::kRows * panel_bytes;
          const std::uint8_t* elements = bytes + row * as.block_bytes;
          for (std::int64_t i = 0; i < count; ++i, elements += reader.row_bytes()) {
            layout.pack_column(elements, std::min(quantized::kRows, out - row), first + i, panel);
          }
        }
      }
    });
  }
};

}  // namespace

bool QuantizedMatrix::can_quantize(const StoredType& type, std::int64_t in) {
  const quantized::WeightLayout* layout = quantized::find_layout(type.name);
  return layout != nullptr && in % layout->elements == 0;
}

QuantizedMatrix::QuantizedMatrix(const StoredTensor& from, const StoredType& as)
    : type_(&as), layout_(quantized::find_layout(as.name)) {
  check(from.shape().rank() == 2 && from.shape().numel() > 0, "{} of shape {} is no matrix",
        from.label(), from.shape());
  check_untracked("QuantizedMatrix", from.label(), from.in_memory());
  out_ = from.shape()[0], in_ = from.shape()[1];
  check(can_quantize(as, in_), "{}: rows of {} elements cannot be quantised as {}", from.label(),
        in_, as.name);
  panel_bytes_ = layout_->panel_bytes(in_);
  panels_ = std::make_unique<Scratch>(static_cast<std::size_t>(bytes()));
  const bool becomes_blocks = layout_->pack_column == nullptr;
  from.is_transposed() && becomes_blocks
      ? fill(StoredTensor(from.widened(DType::f32), from.label()))
      : fill(from);
}

QuantizedMatrix::~QuantizedMatrix() = default;

std::uint64_t QuantizedMatrix::bytes() const {
  return static_cast<std::uint64_t>(panels_of(out_) * panel_bytes_);
}

void QuantizedMatrix::fill(const StoredTensor& from) try {
  const bool as_is = &from.type() == type_;
  check(from.type().to_f32 != nullptr && (as_is || type_->from_f32 != nullptr),
        "{} cannot be converted to {}", from.type().name, type_->name);
  const Filling filling{
      from, *type_, *layout_, out_, in_, panel_bytes_, static_cast<std::uint8_t*>(panels_->data())};
  from.is_transposed() ? filling.by_columns() : filling.by_rows();
} catch (const Error& error) {
  fail("{}: {}", from.label(), error.what());
}

std::span<const std::byte> QuantizedMatrix::memory() const {
  return {static_cast<const std::byte*>(panels_->data()), static_cast<std::size_t>(bytes())};
}

void QuantizedMatrix::dequantize(std::int64_t first, std::int64_t last, float* to) const {
  const auto* panels = static_cast<const std::uint8_t*>(panels_->data());
  const std::int64_t begin_panel = first / quantized::kRows;
  parallel_for(panels_of(last) - begin_panel, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin_panel + begin; panel < begin_panel + end; ++panel) {
      const std::int64_t row = panel * quantized::kRows;
      const std::int64_t from = std::max(first, row),
                         until = std::min(last, row + quantized::kRows);
      layout_->unpack(panels + panel * panel_bytes_, in_, from - row, until - row,
                      to + (from - first) * in_);
    }
  });
}

Tensor QuantizedMatrix::dequantized() const {
  Tensor all = Tensor::empty(shape());
  dequantize(0, out_, all.mutable_data<float>());
  return all;
}

Tensor QuantizedMatrix::rows(const Tensor& ids) const {
  Shape shape = ids.shape();
  shape.push_back(in_);
  Tensor chosen = Tensor::empty(shape);
  float* to = chosen.mutable_data<float>();
  const auto* panels = static_cast<const std::uint8_t*>(panels_->data());
  for (const std::int32_t id : ids.values<std::int32_t>()) {
    check(id >= 0 && id < out_, "[embedding] there is no row {} of {}", id, out_);
    const std::int64_t row = id % quantized::kRows;
    layout_->unpack(panels + id / quantized::kRows * panel_bytes_, in_, row, row + 1, to);
    to += in_;
  }
  return chosen;
}

std::string_view quantized_kernels() { return quantized::kernel_sets().back().name; }

}  // namespace tapegrad
