#include "tapegrad/run/models/formats/onnx/internal/onnx_weights.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::run {
namespace {

float scale_of(const float* row, std::int64_t n) {
  float most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(row[i]));
  return most / 127;
}

// One for each row.
template <class Row>
void for_rows(const Tensor& w, const Row& row) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / w.dim(1));
  parallel_for(w.dim(0), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) row(r, w.data<float>() + r * w.dim(1));
  });
}

Tensor rounded(const Tensor& w, bool transposed) {
  const std::int64_t rows = w.dim(0), columns = w.dim(1);
  Tensor bytes = Tensor::empty({w.numel()}, DType::u8);
  auto* out = bytes.mutable_data<std::uint8_t>();
  for_rows(w, [&](std::int64_t r, const float* row) {
    const float scale = scale_of(row, columns);
    for (std::int64_t i = 0; i < columns; ++i) {
      // The scale of a row of denormals is a coarse one.
      const float x = scale == 0 ? 0 : std::clamp(std::nearbyint(row[i] / scale), -127.0F, 127.0F);
      out[transposed ? i * rows + r : r * columns + i] =
          static_cast<std::uint8_t>(kOnnxZeroByte + static_cast<int>(x));
    }
  });
  return bytes;
}

void check_finite(const std::string& name, const Tensor& w) {
  for (const float x : w.values<float>()) {
    check(std::isfinite(x), "'{}' has the value {}, which 8 bits cannot hold", name, x);
  }
}

}  // namespace

OnnxWeight onnx_floats(const std::string& name, const Shape& shape, const StoredType& type,
                       std::function<Tensor()> make) {
  const std::optional<std::uint64_t> bytes = stored_bytes(type, shape);
  check(bytes.has_value(), "'{}' of shape {} cannot be stored as {}", name, shape, type.name);
  const auto write = [name, shape, &type, make = std::move(make)](FileWriter& file) {
    const Tensor t = make();
    check(t.shape() == shape, "'{}' was to be {}, and is {}", name, shape, t.shape());
    write_stored(file, name, t, type);
  };
  return {name, type.is(DType::f32) ? OnnxType::f32 : OnnxType::f16, shape, *bytes, write};
}

OnnxWeight onnx_rounded(const std::string& name, const Tensor& w, bool transposed) {
  check_finite(name, w);
  const Shape shape = transposed ? Shape{w.dim(1), w.dim(0)} : w.shape();
  const auto write = [w, transposed](FileWriter& file) {
    file.write(bytes_of(rounded(w, transposed)));
  };
  return {name, OnnxType::u8, shape, static_cast<std::uint64_t>(w.numel()), write};
}

OnnxWeight onnx_scales(const std::string& name, const Tensor& w) {
  return onnx_floats(name, {w.dim(0)}, stored_type(DType::f32), [w] {
    Tensor scales = Tensor::empty({w.dim(0)});
    float* const out = scales.mutable_data<float>();
    for_rows(w, [&](std::int64_t r, const float* row) { out[r] = scale_of(row, w.dim(1)); });
    return scales;
  });
}

}  // namespace tapegrad::run
