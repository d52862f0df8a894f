// Images read at places between their pixels, made of other ops: none has a derivative of its own.

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/image_ops.h"

namespace tapegrad {
namespace {

// Folded into [low, high], as by mirrors at both ends.
Tensor reflected(const Tensor& at, double low, double high) {
  const double span = high - low;
  if (span <= 0) return Tensor::zeros(at.shape(), at.dtype());
  const Tensor far = abs(at - low);
  const Tensor turns = floor(far.detach() / span);
  const Tensor rest = far - turns * span;
  const Tensor is_odd = ne(turns - floor(turns / 2.0) * 2.0, 0);
  return where(is_odd, span - rest, rest) + low;
}

// Coordinates from −1 to 1 as those of pixels, of which there are `count`.
Tensor pixels(const Tensor& at, std::int64_t count, const GridSampleOptions& o) {
  const auto size = static_cast<double>(count);
  Tensor place = o.align_corners ? (at + 1.0) * ((size - 1) / 2) : (at + 1.0) * (size / 2) - 0.5;
  if (o.padding == GridPadding::reflection) {
    place = o.align_corners ? reflected(place, 0, size - 1) : reflected(place, -0.5, size - 0.5);
  }
  // Outside, and with the gradient 0: infinities less themselves are no numbers.
  if (o.padding == GridPadding::zeros) {
    const Tensor known = place.detach();
    return masked_fill(place, ne(known - known, 0), -2);
  }
  return hardtanh(masked_fill(place, ne(place, place), 0), 0, size - 1);
}

// All pixels of all images as rows, and one of zeros, which stands for all that is outside.
struct Pixels {
  Tensor rows;   // (N·H·W + 1, C)
  Tensor first;  // (N, 1, 1), f64: the first row of each image
  std::int64_t H, W;
};

Pixels pixels_of(const Tensor& x) {
  const std::int64_t N = x.dim(0), C = x.dim(1), H = x.dim(2), W = x.dim(3);
  const Tensor rows = reshape(permute(x, {0, 2, 3, 1}), {N * H * W, C});
  Tensor first = Tensor::empty({N, 1, 1}, DType::f64);
  for (std::int64_t n = 0; n < N; ++n)
    first.mutable_data<double>()[n] = static_cast<double>(n * H * W);
  return {concat({rows, Tensor::zeros({1, C}, x.dtype())}, 0), first, H, W};
}

// The pixels in rows y and columns x, both (N, H_out, W_out), whole and not recorded → (N, H_out,
// W_out, C).
Tensor pixels_at(const Pixels& image, const Tensor& y, const Tensor& x) {
  const auto inside = [](const Tensor& at, std::int64_t count) {
    return logical_and(at >= 0.0, at < static_cast<double>(count));
  };
  const Tensor known = logical_and(inside(y, image.H), inside(x, image.W));
  // f64 has each number of a row; a place that is no number is outside, too.
  const Tensor id =
      y.to(DType::f64) * static_cast<double>(image.W) + x.to(DType::f64) + image.first;
  const auto outside = static_cast<double>(image.rows.dim(0) - 1);
  const Tensor ids = where(known, id, Tensor::scalar(outside, DType::f64)).to(DType::i64);
  return gather_rows(image.rows, ids);
}

Tensor bilinear(const Pixels& image, const Tensor& y, const Tensor& x) {
  const Tensor top = floor(y.detach()), left = floor(x.detach());
  const Tensor down = y - top, right = x - left;
  const auto part = [&](const Tensor& row, const Tensor& column, const Tensor& share) {
    return pixels_at(image, row, column) * unsqueeze(share, -1);
  };
  return part(top, left, (1.0 - down) * (1.0 - right)) +
         part(top, left + 1.0, (1.0 - down) * right) + part(top + 1.0, left, down * (1.0 - right)) +
         part(top + 1.0, left + 1.0, down * right);
}

}  // namespace

Tensor affine_grid(const Tensor& theta, Size2d out, bool align_corners) {
  check(theta.rank() == 3 && theta.dim(1) == 2 && theta.dim(2) == 3,
        "[affine_grid] theta must be (N, 2, 3), not {}", theta.shape());
  check(out.h > 0 && out.w > 0, "[affine_grid] the grid needs a row and a column, not {} × {}",
        out.h, out.w);
  Tensor places = Tensor::empty({out.h * out.w, 3}, DType::f64);
  const auto place = [&](std::int64_t i, std::int64_t count) {
    if (count == 1) return 0.0;
    const auto n = static_cast<double>(count);
    return (2 * static_cast<double>(i) - (n - 1)) / (align_corners ? n - 1 : n);
  };
  auto* to = places.mutable_data<double>();
  for (std::int64_t i = 0; i < out.h * out.w; ++i, to += 3) {
    to[0] = place(i % out.w, out.w);
    to[1] = place(i / out.w, out.h);
    to[2] = 1;
  }
  const Tensor grid = matmul(places.to(theta.dtype()), permute(theta, {0, 2, 1}));
  return reshape(grid, {theta.dim(0), out.h, out.w, 2});
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  check(is_float(x.dtype()) && grid.dtype() == x.dtype(),
        "[grid_sample] x and grid must be both of f32 or both of f64, not of {} and {}",
        name_of(x.dtype()), name_of(grid.dtype()));
  check(x.rank() == 4 && x.dim(2) > 0 && x.dim(3) > 0,
        "[grid_sample] x must be (N, C, H, W) with pixels, not {}", x.shape());
  check(grid.rank() == 4 && grid.dim(0) == x.dim(0) && grid.dim(3) == 2,
        "[grid_sample] grid must be ({}, H_out, W_out, 2), not {}", x.dim(0), grid.shape());
  const Tensor column = pixels(select(grid, 3, 0), x.dim(3), options);
  const Tensor row = pixels(select(grid, 3, 1), x.dim(2), options);
  const Pixels image = pixels_of(x);
  const Tensor y = options.mode == GridMode::nearest
                       ? pixels_at(image, round(row.detach()), round(column.detach()))
                       : bilinear(image, row, column);
  return permute(y, {0, 3, 1, 2});
}

}  // namespace tapegrad
