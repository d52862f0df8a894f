#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/ops/internal/conv_geometry.h"

namespace tapegrad {
namespace {

// Elements [begin, end) of one dimension, whose sum is divided by `count`.
struct Window {
  std::int64_t begin, end;
  double count;
};
using Windows1d = std::vector<Window>;

// Means of the windows of a plane of `size`, and what makes of means a plane again: each is the
// other's gradient.
struct Averages {
  Size2d size;
  Windows1d rows, columns;
  std::string_view name, back_name;

  std::int64_t elements() const { return size.h * size.w; }
  std::int64_t means() const { return static_cast<std::int64_t>(rows.size() * columns.size()); }
  std::int64_t grain() const { return 1 + kElementGrain / std::max(elements(), means()); }
};
using Shared = std::shared_ptr<const Averages>;

// y (rows, columns) of one plane; `line` holds a row of the plane.
template <class T>
void average_plane(const Averages& a, const T* x, T* line, T* y) {
  const std::int64_t width = a.size.w;
  for (const auto& [begin, end, rows] : a.rows) {
    std::fill_n(line, width, T{0});
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t t = 0; t < width; ++t) line[t] += x[r * width + t];
    }
    for (const auto& [first, last, columns] : a.columns) {
      T sum = 0;
      for (std::int64_t t = first; t < last; ++t) sum += line[t];
      *y++ = sum / static_cast<T>(rows * columns);
    }
  }
}

// Adds each mean's gradient, divided, to the elements of its window.
template <class T>
void spread_plane(const Averages& a, const T* dy, T* line, T* dx) {
  const std::int64_t width = a.size.w;
  for (const auto& [begin, end, rows] : a.rows) {
    std::fill_n(line, width, T{0});
    for (const auto& [first, last, columns] : a.columns) {
      const T share = *dy++ / static_cast<T>(rows * columns);
      for (std::int64_t t = first; t < last; ++t) line[t] += share;
    }
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t t = 0; t < width; ++t) dx[r * width + t] += line[t];
    }
  }
}

Tensor spread(const Shared& a, const Tensor& y, OnnxRow row = {});

Tensor average(const Shared& a, const Tensor& x, OnnxRow row = {}) {
  return apply(
      a->name, {x},
      [a](Inputs in, Saved&) {
        const auto h = static_cast<std::int64_t>(a->rows.size());
        const auto w = static_cast<std::int64_t>(a->columns.size());
        const Tensor& x = in[0];
        Tensor y = Tensor::empty({x.dim(0), x.dim(1), h, w}, x.dtype());
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = x.data<T>();
          T* to = y.mutable_data<T>();
          parallel_for(x.dim(0) * x.dim(1), a->grain(), [&](auto begin, auto end) {
            std::vector<T> line(static_cast<std::size_t>(a->size.w));
            for (std::int64_t p = begin; p < end; ++p) {
              average_plane(*a, from + p * a->elements(), line.data(), to + p * a->means());
            }
          });
        });
        return y;
      },
      [a](const Tensor& dy, const Saved&, const Needs&) -> Grads { return {spread(a, dy)}; },
      {.onnx = std::move(row)});
}

// Where the windows are copies of an element each: which one, for each place of a dimension.
OnnxValue onnx_sources(OnnxCall& c, const Windows1d& windows) {
  std::vector<std::int64_t> sources;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    sources.resize(static_cast<std::size_t>(windows[i].end), static_cast<std::int64_t>(i));
  }
  return c.wholes(sources);
}
OnnxValue onnx_copies(OnnxCall& c, const Averages& a) {
  const OnnxValue tall =
      c("Gather", {c.in(0), onnx_sources(c, a.rows)}, {{"axis", std::int64_t{2}}});
  return c("Gather", {tall, onnx_sources(c, a.columns)}, {{"axis", std::int64_t{3}}});
}

Tensor spread(const Shared& a, const Tensor& y, OnnxRow row) {
  return apply(
      a->back_name, {y},
      [a](Inputs in, Saved&) {
        const Tensor& y = in[0];
        Tensor x = Tensor::zeros({y.dim(0), y.dim(1), a->size.h, a->size.w}, y.dtype());
        dispatch(x.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = y.data<T>();
          T* to = x.mutable_data<T>();
          parallel_for(y.dim(0) * y.dim(1), a->grain(), [&](auto begin, auto end) {
            std::vector<T> line(static_cast<std::size_t>(a->size.w));
            for (std::int64_t p = begin; p < end; ++p) {
              spread_plane(*a, from + p * a->means(), line.data(), to + p * a->elements());
            }
          });
        });
        return x;
      },
      [a](const Tensor& dx, const Saved&, const Needs&) -> Grads { return {average(a, dx)}; },
      {.onnx = std::move(row)});
}

OnnxRow average_pool(const ConvGeometry& g, bool counts_padding) {
  return [g, counts_padding](OnnxCall& c) {
    std::vector<OnnxAttribute> attributes = onnx_window(g);
    attributes.push_back({"count_include_pad", std::int64_t{counts_padding}});
    return c("AveragePool", c.inputs(), attributes);
  };
}

// The windows of a kernel that moves over `size` elements with padding around them.
Windows1d moving(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                 std::int64_t count, bool count_padding) {
  Windows1d windows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * stride - padding, end = std::min(begin + kernel, size + padding);
    const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, size);
    windows.push_back(
        {first, last, static_cast<double>(count_padding ? end - begin : last - first)});
  }
  return windows;
}

// `count` windows that together cover `size` elements, rounded outwards.
Windows1d even(std::int64_t size, std::int64_t count) {
  Windows1d windows;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [begin, end] = even_window(size, count, i);
    windows.push_back({begin, end, static_cast<double>(end - begin)});
  }
  return windows;
}

// How many elements of the input one of the output is from the next: size/out, or 1/scale.
double step_of(std::int64_t size, std::int64_t out, std::optional<double> scale) {
  return scale ? 1 / *scale : static_cast<double>(size) / static_cast<double>(out);
}

// For each of `size` elements, the ones of `out` that are its copies.
Windows1d copies(std::int64_t size, std::int64_t out, std::optional<double> scale) {
  const auto step = static_cast<float>(step_of(size, out, scale));
  // Element i of `out` is a copy of that element, or of a later one.
  const auto reached = [&](std::int64_t i, std::int64_t element) {
    // Sizes that stay or double are exact in PyTorch, whatever the scale.
    const bool rounds = scale && out != size && out != 2 * size;
    return rounds ? std::floor(static_cast<float>(i) * step) >= static_cast<float>(element)
                  : i * size >= element * out;
  };
  Windows1d windows;
  std::int64_t begin = 0, end = 0;
  for (std::int64_t i = 0; i < size; ++i, begin = end) {
    while (end < out && (i == size - 1 || !reached(end, i + 1))) ++end;
    windows.push_back({begin, end, 1});
  }
  return windows;
}

// x between elements of dimension `dim`: `out` of them, at (i + ½)·step − ½.
Tensor interpolate(const Tensor& x, int dim, std::int64_t out, std::optional<double> scale) {
  const std::int64_t size = x.dim(dim);
  const double step = step_of(size, out, scale);
  std::vector<std::int32_t> low, high;
  std::vector<double> shares;
  for (std::int64_t i = 0; i < out; ++i) {
    const double place = std::max(0.0, (static_cast<double>(i) + 0.5) * step - 0.5);
    const auto below =
        std::min(static_cast<std::int32_t>(place), static_cast<std::int32_t>(size - 1));
    low.push_back(below);
    high.push_back(std::min(below + 1, static_cast<std::int32_t>(size - 1)));
    shares.push_back(place - below);
  }
  const Tensor share = Tensor::from(shares, dim == 2 ? Shape{out, 1} : Shape{out}).to(x.dtype());
  const Tensor a = index_select(x, dim, Tensor::from(low, {out}));
  return a + (index_select(x, dim, Tensor::from(high, {out})) - a) * share;
}

Tensor resized(std::string_view op, const Tensor& images, Size2d out, Upsample mode,
               std::optional<Scale2d> scale) {
  check_out(op, out);
  check(is_float(images.dtype()), "[{}] x must be of f32 or f64, not of {}", op,
        name_of(images.dtype()));
  const auto down = scale ? std::optional(scale->h) : std::nullopt;
  const auto right = scale ? std::optional(scale->w) : std::nullopt;
  if (mode == Upsample::bilinear) {
    return interpolate(interpolate(images, 2, out.h, down), 3, out.w, right);
  }
  const Shared all = std::make_shared<Averages>(Averages{out, copies(images.dim(2), out.h, down),
                                                         copies(images.dim(3), out.w, right),
                                                         "upsample_backward", "upsample"});
  return spread(all, images, [all](OnnxCall& c) { return onnx_copies(c, *all); });
}

}  // namespace

Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options) {
  const ConvGeometry pool{.taps = kernel,
                          .stride = stride_or_kernel(options.stride, kernel),
                          .padding = options.padding,
                          .dilation = 1};
  return for_batch("avg_pool2d", x, [&](const Tensor& images) {
    const ConvGeometry g = pooling("avg_pool2d", images, pool);
    const bool counts = options.count_include_pad;
    return average(
        std::make_shared<Averages>(Averages{
            g.size, moving(g.size.h, kernel.h, g.stride.h, g.padding.h, g.out_size.h, counts),
            moving(g.size.w, kernel.w, g.stride.w, g.padding.w, g.out_size.w, counts), "avg_pool2d",
            "avg_pool2d_backward"}),
        images, average_pool(g, counts));
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out) {
  return for_batch("adaptive_avg_pool2d", x, [&](const Tensor& images) {
    check_out("adaptive_avg_pool2d", out);
    const Size2d size{images.dim(2), images.dim(3)};
    OnnxRow row;
    if (size.h % out.h == 0 && size.w % out.w == 0) {
      const Size2d window{size.h / out.h, size.w / out.w};
      row = average_pool({.taps = window, .stride = window}, false);
    }
    return average(
        std::make_shared<Averages>(Averages{size, even(size.h, out.h), even(size.w, out.w),
                                            "adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"}),
        images, std::move(row));
  });
}

Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  return for_signal("avg_pool1d", x, [&](const Tensor& rows) {
    return avg_pool2d(rows, {1, kernel},
                      {.stride = {1, options.stride == 0 ? kernel : options.stride},
                       .padding = {0, options.padding}});
  });
}

Tensor upsample(const Tensor& x, Size2d out, Upsample mode) {
  return for_batch("upsample", x, [&](const Tensor& images) {
    return resized("upsample", images, out, mode, std::nullopt);
  });
}

Tensor upsample_by(const Tensor& x, Scale2d scale, Upsample mode) {
  const auto grown = [](std::int64_t size, double by) {
    check(std::isfinite(by) && by > 0, "[upsample_by] the scale must be finite and above 0, not {}",
          by);
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(size) * by, static_cast<double>(kSizeLimit)));
  };
  return for_batch("upsample_by", x, [&](const Tensor& images) {
    const Size2d out{grown(images.dim(2), scale.h), grown(images.dim(3), scale.w)};
    return resized("upsample_by", images, out, mode, scale);
  });
}

}  // namespace tapegrad
