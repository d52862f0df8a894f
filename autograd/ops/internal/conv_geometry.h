#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad {

// The sizes of a convolution in two dimensions, or of a pooling, which is one of each channel.
struct ConvGeometry {
  std::int64_t batch = 0, channels = 0, out = 0, groups = 1;
  Size2d size = {}, taps = {}, out_size = {}, stride = {}, padding = {}, dilation = {};

  Shape x_shape() const { return {batch, channels, size.h, size.w}; }
  Shape weight_shape() const { return {out, channels / groups, taps.h, taps.w}; }
  Shape y_shape() const { return {batch, out, out_size.h, out_size.w}; }
  std::int64_t places() const { return out_size.h * out_size.w; }
  // The elements of x that one element of y is made of.
  std::int64_t depth() const { return channels / groups * taps.h * taps.w; }
};

// Sizes, strides, paddings and dilations are below this, so that their products fit into 64 bits.
inline constexpr std::int64_t kSizeLimit = std::int64_t{1} << 31;

inline void check_window(std::string_view op, Size2d taps, Size2d stride, Size2d padding,
                         Size2d dilation) {
  const auto in_range = [op](const char* name, Size2d size, std::int64_t least) {
    check(std::min(size.h, size.w) >= least && std::max(size.h, size.w) < kSizeLimit,
          "[{}] {} ({}, {}) must be from {} to 2^31 - 1", op, name, size.h, size.w, least);
  };
  in_range("a kernel of", taps, 1);
  in_range("stride", stride, 1);
  in_range("padding", padding, 0);
  in_range("dilation", dilation, 1);
}

// How many windows lie in an image of that size.
inline Size2d windows_in(std::string_view op, Size2d size, Size2d taps, Size2d stride,
                         Size2d padding, Size2d dilation) {
  const auto count = [op](std::int64_t n, std::int64_t of_taps, std::int64_t step, std::int64_t pad,
                          std::int64_t apart) {
    const std::int64_t reach = apart * (of_taps - 1) + 1, padded = n + 2 * pad;
    check(reach <= padded,
          "[{}] a kernel that reaches over {} does not fit into {} padded elements", op, reach,
          padded);
    return (padded - reach) / step + 1;
  };
  const Size2d windows{count(size.h, taps.h, stride.h, padding.h, dilation.h),
                       count(size.w, taps.w, stride.w, padding.w, dilation.w)};
  check(windows.h <= (std::int64_t{1} << 40) / windows.w, "[{}] ({}, {}) windows are too many", op,
        windows.h, windows.w);
  return windows;
}

// ⌈a / b⌉ for b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a > 0 ? (a + b - 1) / b : a / b;
}

// One tap, seen along rows: place t of a row meets element t·stride + shift of x's row, and that is
// inside of x for t in [begin, end).
struct TapRange {
  std::int64_t shift, begin, end;
  TapRange(const ConvGeometry& g, std::int64_t tap)
      : shift(tap * g.dilation.w - g.padding.w),
        begin(std::clamp<std::int64_t>(ceil_div(-shift, g.stride.w), 0, g.out_size.w)),
        end(std::clamp(ceil_div(g.size.w - shift, g.stride.w), begin, g.out_size.w)) {}
};

// Calls visit(tap, x, y, n) for each tap and each row of an output plane: the n places from y on,
// in the plane, meet the elements x + t·stride.w of the plane of x. n is not 0.
template <class Visit>
void walk_plane(const ConvGeometry& g, const std::vector<TapRange>& ranges, const Visit& visit) {
  for (std::int64_t r = 0; r < g.out_size.h; ++r) {
    for (std::int64_t i = 0; i < g.taps.h; ++i) {
      const std::int64_t row = r * g.stride.h + i * g.dilation.h - g.padding.h;
      if (row < 0 || row >= g.size.h) continue;
      for (std::int64_t j = 0; j < g.taps.w; ++j) {
        const TapRange& range = ranges[static_cast<std::size_t>(j)];
        if (range.begin == range.end) continue;
        visit(i * g.taps.w + j, row * g.size.w + range.shift + range.begin * g.stride.w,
              r * g.out_size.w + range.begin, range.end - range.begin);
      }
    }
  }
}

inline std::vector<TapRange> tap_ranges(const ConvGeometry& g) {
  std::vector<TapRange> ranges;
  for (std::int64_t j = 0; j < g.taps.w; ++j) ranges.emplace_back(g, j);
  return ranges;
}

inline std::int64_t plane_grain(const ConvGeometry& g, std::int64_t planes) {
  const double work = static_cast<double>(g.places()) * static_cast<double>(g.depth() * planes);
  return 1 + static_cast<std::int64_t>(static_cast<double>(kElementGrain) / std::max(1.0, work));
}

// The attributes of a window that ONNX's ops have in common.
inline std::vector<OnnxAttribute> onnx_window(const ConvGeometry& g) {
  const auto [h, w] = g.padding;
  return {{"kernel_shape", OnnxWholes{g.taps.h, g.taps.w}},
          {"strides", OnnxWholes{g.stride.h, g.stride.w}},
          {"pads", OnnxWholes{h, w, h, w}}};
}
// The same of ops whose windows have gaps.
inline std::vector<OnnxAttribute> onnx_dilated_window(const ConvGeometry& g) {
  std::vector<OnnxAttribute> attributes = onnx_window(g);
  attributes.push_back({"dilations", OnnxWholes{g.dilation.h, g.dilation.w}});
  return attributes;
}

// Elements [first, second) of window i of `count` that together cover `size` elements, rounded
// outwards.
inline std::pair<std::int64_t, std::int64_t> even_window(std::int64_t size, std::int64_t count,
                                                         std::int64_t i) {
  return {i * size / count, ceil_div((i + 1) * size, count)};
}

inline void check_out(std::string_view op, Size2d out) {
  check(out.h > 0 && out.w > 0 && out.h < kSizeLimit && out.w < kSizeLimit,
        "[{}] the size ({}, {}) must be from 1 to 2^31 - 1", op, out.h, out.w);
}

// An op on (N, C, H, W), for x that may be one image (C, H, W).
template <class F>
Tensor for_batch(std::string_view op, const Tensor& x, const F& run) {
  check(x.rank() == 3 || x.rank() == 4, "[{}] x must be (N, C, H, W) or (C, H, W), not {}", op,
        x.shape());
  check(x.dim(-2) > 0 && x.dim(-1) > 0, "[{}] x {} has no elements in a plane", op, x.shape());
  check(x.dim(-2) < kSizeLimit && x.dim(-1) < kSizeLimit, "[{}] x {} is too large", op, x.shape());
  if (x.rank() == 4) return run(x);
  const Tensor y = run(reshape(x, x.shape().inserted(0, 1)));
  return reshape(y, y.shape().without(0));
}

// An op on (N, C, 1, L), for x (N, C, L) or (C, L). Its errors have the name `op`.
template <class F>
Tensor for_signal(std::string_view op, const Tensor& x, const F& run) {
  check(x.rank() == 2 || x.rank() == 3, "[{}] x must be (N, C, L) or (C, L), not {}", op,
        x.shape());
  const Tensor rows = reshape(x, x.shape().inserted(x.rank() - 1, 1));
  try {
    const Tensor y = run(rows);
    return reshape(y, y.shape().without(y.rank() - 2));
  } catch (const NoAddresses&) {
    throw;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const std::size_t name = text.starts_with('[') ? text.find("] ") : text.npos;
    fail("[{}] {}", op, name == text.npos ? text : text.substr(name + 2));
  }
}

inline Size2d stride_or_kernel(Size2d stride, Size2d kernel) {
  return {stride.h == 0 ? kernel.h : stride.h, stride.w == 0 ? kernel.w : stride.w};
}

// The geometry of a pooling of `images` with the taps, stride, padding and dilation of `pool`.
inline ConvGeometry pooling(std::string_view op, const Tensor& images, const ConvGeometry& pool) {
  check_window(op, pool.taps, pool.stride, pool.padding, pool.dilation);
  check(2 * pool.padding.h <= pool.taps.h && 2 * pool.padding.w <= pool.taps.w,
        "[{}] the padding ({}, {}) is more than half of the kernel ({}, {})", op, pool.padding.h,
        pool.padding.w, pool.taps.h, pool.taps.w);
  ConvGeometry g = pool;
  g.batch = images.dim(0);
  g.channels = g.out = images.dim(1);
  g.groups = std::max<std::int64_t>(1, g.channels);
  g.size = {images.dim(2), images.dim(3)};
  g.out_size = windows_in(op, g.size, g.taps, g.stride, g.padding, g.dilation);
  return g;
}

}  // namespace tapegrad
