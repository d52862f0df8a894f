#include "tapegrad/arrays/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad::arrays {
namespace {

struct Size {
  std::int64_t n, c, h, w;
  std::int64_t plane() const { return h * w; }
  std::int64_t image() const { return c * plane(); }
};

Size size_of(std::string_view transform, const Tensor& images) {
  check(images.rank() == 4 && is_float(images.dtype()),
        "[{}] images must be floats (N, C, H, W), not {} {}", transform, name_of(images.dtype()),
        images.shape());
  check_untracked(transform, "images", images);
  return {images.dim(0), images.dim(1), images.dim(2), images.dim(3)};
}

// Calls visit(to, from, n) with the elements of each image, in their order.
template <class Visit>
Tensor each_image(const Tensor& images, const Size& from, const Size& to, const Visit& visit) {
  Tensor changed = Tensor::zeros({to.n, to.c, to.h, to.w}, images.dtype());
  if (in_dry_run()) return changed;
  dispatch(images.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = images.data<T>();
    T* const y = changed.mutable_data<T>();
    for (std::int64_t n = 0; n < from.n; ++n) visit(y + n * to.image(), x + n * from.image());
  });
  return changed;
}

// Pixel (row, column) of each image comes from source(row, column) of the drawn `flips`.
template <class Source>
Tensor flipped(std::string_view transform, const Tensor& images, Rng& rng, double p,
               const Source& source) {
  const Size size = size_of(transform, images);
  check(p >= 0 && p <= 1, "[{}] p must be from 0 to 1, not {}", transform, p);
  return each_image(images, size, size, [&](auto* y, const auto* x) {
    const bool flips = static_cast<double>(rng.uniform()) < p;
    for (std::int64_t i = 0; i < size.c * size.h; ++i) {
      const std::int64_t row = i % size.h, first = i - row;
      for (std::int64_t column = 0; column < size.w; ++column) {
        const auto [r, c] = flips ? source(size, row, column) : std::pair(row, column);
        y[i * size.w + column] = x[(first + r) * size.w + c];
      }
    }
  });
}

// The value between four pixels of a plane at (y, x), zeros outside.
template <class T>
T interpolated(const T* plane, const Size& size, double y, double x) {
  const double top = std::floor(y), left = std::floor(x);
  const auto pixel = [&](double row, double column) {
    const bool inside = row >= 0 && column >= 0 && row < static_cast<double>(size.h) &&
                        column < static_cast<double>(size.w);
    if (!inside) return 0.0;
    return static_cast<double>(
        plane[static_cast<std::int64_t>(row) * size.w + static_cast<std::int64_t>(column)]);
  };
  const double down = y - top, right = x - left;
  return static_cast<T>(
      (1 - down) * ((1 - right) * pixel(top, left) + right * pixel(top, left + 1)) +
      down * ((1 - right) * pixel(top + 1, left) + right * pixel(top + 1, left + 1)));
}

}  // namespace

Tensor random_crop(const Tensor& images, Rng& rng, const CropOptions& o) {
  const Size size = size_of("random_crop", images);
  check(o.padding >= 0 && o.padding <= 1 << 20,
        "[random_crop] padding must be from 0 to {}, not {}", 1 << 20, o.padding);
  const std::int64_t h = size.h + 2 * o.padding, w = size.w + 2 * o.padding;
  check(o.height >= 1 && o.height <= h && o.width >= 1 && o.width <= w,
        "[random_crop] a part of {} x {} must be from 1 x 1 to {} x {}, which the images {} have "
        "with a padding of {}",
        o.height, o.width, h, w, images.shape(), o.padding);
  const Size part{size.n, size.c, o.height, o.width};
  return each_image(images, size, part, [&](auto* y, const auto* x) {
    std::int64_t top = 0, left = 0;
    if (o.height != h || o.width != w) {
      top = rng.randint(h - o.height + 1);
      left = rng.randint(w - o.width + 1);
    }
    for (std::int64_t i = 0; i < part.c * part.h; ++i) {
      const std::int64_t row = top + i % part.h - o.padding;
      if (row < 0 || row >= size.h) continue;
      const std::int64_t begin = std::max<std::int64_t>(0, o.padding - left),
                         end = std::min(part.w, size.w + o.padding - left);
      const auto* const from = x + (i / part.h * size.h + row) * size.w;
      for (std::int64_t column = begin; column < end; ++column) {
        y[i * part.w + column] = from[left + column - o.padding];
      }
    }
  });
}

Tensor random_horizontal_flip(const Tensor& images, Rng& rng, double p) {
  return flipped("random_horizontal_flip", images, rng, p,
                 [](const Size& size, std::int64_t row, std::int64_t column) {
                   return std::pair(row, size.w - 1 - column);
                 });
}

Tensor random_vertical_flip(const Tensor& images, Rng& rng, double p) {
  return flipped("random_vertical_flip", images, rng, p,
                 [](const Size& size, std::int64_t row, std::int64_t column) {
                   return std::pair(size.h - 1 - row, column);
                 });
}

Tensor random_rotation(const Tensor& images, Rng& rng, double degrees) {
  const Size size = size_of("random_rotation", images);
  check(degrees >= 0 && degrees <= 360, "[random_rotation] degrees must be from 0 to 360, not {}",
        degrees);
  const double middle_y = static_cast<double>(size.h - 1) / 2,
               middle_x = static_cast<double>(size.w - 1) / 2;
  return each_image(images, size, size, [&](auto* to, const auto* from) {
    float drawn = 0;
    rng.uniform({&drawn, 1}, -degrees, degrees);
    const double angle = static_cast<double>(drawn) * std::numbers::pi / 180;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    for (std::int64_t i = 0; i < size.image(); ++i) {
      const double y = static_cast<double>(i / size.w % size.h) - middle_y,
                   x = static_cast<double>(i % size.w) - middle_x;
      to[i] = interpolated(from + i / size.plane() * size.plane(), size,
                           sine * x + cosine * y + middle_y, cosine * x - sine * y + middle_x);
    }
  });
}

Tensor cutout(const Tensor& images, Rng& rng, std::int64_t side) {
  const Size size = size_of("cutout", images);
  check(side >= 0 && side <= 1 << 20, "[cutout] side must be from 0 to {}, not {}", 1 << 20, side);
  check(size.n == 0 || size.plane() > 0, "[cutout] the images {} have no pixels", images.shape());
  return each_image(images, size, size, [&](auto* y, const auto* x) {
    const std::int64_t top = rng.randint(size.h) - side / 2, left = rng.randint(size.w) - side / 2;
    for (std::int64_t i = 0; i < size.image(); ++i) {
      const std::int64_t row = i / size.w % size.h, column = i % size.w;
      const bool cut = row >= top && row < top + side && column >= left && column < left + side;
      if (!cut) y[i] = x[i];
    }
  });
}

Tensor normalize_channels(const Tensor& images, const std::vector<double>& mean,
                          const std::vector<double>& std) {
  const Size size = size_of("normalize_channels", images);
  const auto channels = static_cast<std::size_t>(size.c);
  check(mean.size() == channels && std.size() == channels,
        "[normalize_channels] images {} need {} means and stds, not {} and {}", images.shape(),
        channels, mean.size(), std.size());
  const bool is_f32 = images.dtype() == DType::f32;
  const auto as_theirs = [=](double x) { return is_f32 ? static_cast<float>(x) : x; };
  const auto is_bad = [=](double s) { return as_theirs(s) == 0 || !std::isfinite(as_theirs(s)); };
  check(
      std::all_of(mean.begin(), mean.end(), [=](double m) { return std::isfinite(as_theirs(m)); }),
      "[normalize_channels] a mean must be finite");
  check(std::none_of(std.begin(), std.end(), is_bad),
        "[normalize_channels] a std must be a number other than 0");
  return each_image(images, size, size, [&](auto* y, const auto* x) {
    using T = std::remove_reference_t<decltype(*y)>;
    for (std::int64_t i = 0; i < size.image(); ++i) {
      const auto c = static_cast<std::size_t>(i / size.plane());
      y[i] = (x[i] - static_cast<T>(mean[c])) / static_cast<T>(std[c]);
    }
  });
}

}  // namespace tapegrad::arrays
