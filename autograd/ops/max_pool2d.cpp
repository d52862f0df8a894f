#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/ops/internal/conv_geometry.h"

namespace tapegrad {
namespace {

// Which element of its plane of x each output is, i32; −1 for none.
struct Largest {
  Tensor values, indices;
};

// The taps [begin, end) of each window that lie in `size` elements.
std::vector<std::pair<std::int64_t, std::int64_t>> taps_inside(std::int64_t windows,
                                                               std::int64_t size, std::int64_t taps,
                                                               std::int64_t stride,
                                                               std::int64_t padding,
                                                               std::int64_t dilation) {
  std::vector<std::pair<std::int64_t, std::int64_t>> inside;
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t first = i * stride - padding;
    const std::int64_t begin = std::clamp<std::int64_t>(ceil_div(-first, dilation), 0, taps);
    inside.emplace_back(begin, std::clamp(ceil_div(size - first, dilation), begin, taps));
  }
  return inside;
}

// The place of the largest of some elements in rows, which lie `down` and `right` apart. A jump
// would be guessed wrong half of the time. Constants unroll the usual window.
template <class T, class Rows, class Columns, class Right>
std::int64_t largest_in(const T* plane, std::int64_t first, Rows rows, std::int64_t down,
                        Columns columns, Right right) {
  std::int64_t at = first;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t place = first + i * down + j * right;
      const T v = plane[place];
      const std::int64_t take = (v > plane[at]) | (v != v);
      at ^= (at ^ place) & -take;
    }
  }
  return at;
}

Largest largest(const ConvGeometry& g, const Tensor& x) {
  Largest found{Tensor::empty(g.y_shape(), x.dtype()), Tensor::empty(g.y_shape(), DType::i32)};
  const auto rows =
      taps_inside(g.out_size.h, g.size.h, g.taps.h, g.stride.h, g.padding.h, g.dilation.h);
  const auto columns =
      taps_inside(g.out_size.w, g.size.w, g.taps.w, g.stride.w, g.padding.w, g.dilation.w);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* values = found.values.mutable_data<T>();
    auto* indices = found.indices.mutable_data<std::int32_t>();
    const bool two = g.taps.h == 2 && g.taps.w == 2 && g.dilation.h == 1 && g.dilation.w == 1;
    const auto one = [&](const T* plane, std::int64_t r, std::int64_t t) {
      const auto [i0, i1] = rows[static_cast<std::size_t>(r)];
      const auto [j0, j1] = columns[static_cast<std::size_t>(t)];
      if (i0 == i1 || j0 == j1) return std::int64_t{-1};
      const std::int64_t top = r * g.stride.h - g.padding.h + i0 * g.dilation.h;
      const std::int64_t left = t * g.stride.w - g.padding.w + j0 * g.dilation.w;
      const std::int64_t first = top * g.size.w + left, width = g.size.w;
      if (two && i1 - i0 == 2 && j1 - j0 == 2) {
        constexpr std::integral_constant<std::int64_t, 2> pair;
        return largest_in(plane, first, pair, width, pair,
                          std::integral_constant<std::int64_t, 1>{});
      }
      return largest_in(plane, first, i1 - i0, g.dilation.h * width, j1 - j0, g.dilation.w);
    };
    parallel_for(g.batch * g.channels, plane_grain(g, 1), [&](auto first, auto last) {
      for (std::int64_t p = first, to = first * g.places(); p < last; ++p) {
        const T* plane = from + p * g.size.h * g.size.w;
        for (std::int64_t r = 0; r < g.out_size.h; ++r) {
          for (std::int64_t t = 0; t < g.out_size.w; ++t, ++to) {
            const std::int64_t at = one(plane, r, t);
            values[to] = at < 0 ? -std::numeric_limits<T>::infinity() : plane[at];
            indices[to] = static_cast<std::int32_t>(at);
          }
        }
      }
    });
  });
  return found;
}

// The largest elements of windows that cover the planes evenly.
Largest largest_of_even(const ConvGeometry& g, const Tensor& x) {
  Largest found{Tensor::empty(g.y_shape(), x.dtype()), Tensor::empty(g.y_shape(), DType::i32)};
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* values = found.values.mutable_data<T>();
    auto* indices = found.indices.mutable_data<std::int32_t>();
    const std::int64_t size = g.size.h * g.size.w, places = g.places();
    parallel_for(g.batch * g.channels, 1 + kElementGrain / (size + places), [&](auto p, auto last) {
      for (; p < last; ++p) {
        for (std::int64_t i = 0; i < places; ++i) {
          const auto [top, bottom] = even_window(g.size.h, g.out_size.h, i / g.out_size.w);
          const auto [left, right] = even_window(g.size.w, g.out_size.w, i % g.out_size.w);
          const std::int64_t at = largest_in(from + p * size, top * g.size.w + left, bottom - top,
                                             g.size.w, right - left, std::int64_t{1});
          values[p * places + i] = from[p * size + at];
          indices[p * places + i] = static_cast<std::int32_t>(at);
        }
      }
    });
  });
  return found;
}

// Calls visit(place of x, place of y) for each output that has an element.
template <class Visit>
void each_largest(const ConvGeometry& g, const Tensor& indices, const Visit& visit) {
  const auto* at = indices.data<std::int32_t>();
  const std::int64_t plane = g.size.h * g.size.w, places = g.places();
  parallel_for(g.batch * g.channels, 1 + kElementGrain / places, [=](auto first, auto last) {
    for (std::int64_t p = first; p < last; ++p) {
      for (std::int64_t i = p * places; i < (p + 1) * places; ++i) {
        if (at[i] >= 0) visit(p * plane + at[i], i);
      }
    }
  });
}

Tensor take_largest(const ConvGeometry& g, const Tensor& x, const Tensor& indices);

// The gradient of max_pool2d: each output's goes to its element.
Tensor put_largest(const ConvGeometry& g, const Tensor& dy, const Tensor& indices) {
  return apply(
      "max_pool2d_backward", {dy},
      [g, indices](Inputs in, Saved&) {
        Tensor dx = Tensor::zeros(g.x_shape(), in[0].dtype());
        dispatch(dx.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = dx.mutable_data<T>();
          each_largest(g, indices, [=](auto x, auto y) { to[x] += from[y]; });
        });
        return dx;
      },
      [g, indices](const Tensor& ddx, const Saved&, const Needs&) -> Grads {
        return {take_largest(g, ddx, indices)};
      });
}

// max_pool2d where the largest elements are known: the gradient of put_largest.
Tensor take_largest(const ConvGeometry& g, const Tensor& x, const Tensor& indices) {
  return apply(
      "max_pool2d", {x},
      [g, indices](Inputs in, Saved&) {
        Tensor y = Tensor::zeros(g.y_shape(), in[0].dtype());
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = y.mutable_data<T>();
          each_largest(g, indices, [=](auto at, auto i) { to[i] = from[at]; });
        });
        return y;
      },
      [g, indices](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {put_largest(g, dy, indices)};
      });
}

// A pooling of `images`, whose largest elements find(g, images) gives.
Tensor pooled(std::string_view op, const ConvGeometry& g, const Tensor& images,
              Largest (*find)(const ConvGeometry&, const Tensor&), OnnxRow row = {}) {
  check(g.size.h * g.size.w < kSizeLimit, "[{}] x {} is too large", op, images.shape());
  return apply(
      op, {images},
      [g, find](Inputs in, Saved& saved) {
        const Largest found = find(g, in[0]);
        saved.keep(found.indices);
        return found.values;
      },
      [g](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {put_largest(g, dy, saved[0])};
      },
      {.onnx = std::move(row)});
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options) {
  const auto [asked, padding, dilation] = options;
  const ConvGeometry pool{.taps = kernel,
                          .stride = stride_or_kernel(asked, kernel),
                          .padding = padding,
                          .dilation = dilation};
  return for_batch("max_pool2d", x, [&](const Tensor& images) {
    const ConvGeometry g = pooling("max_pool2d", images, pool);
    return pooled("max_pool2d", g, images, largest,
                  [g](OnnxCall& c) { return c("MaxPool", c.inputs(), onnx_dilated_window(g)); });
  });
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2d out) {
  return for_batch("adaptive_max_pool2d", x, [&](const Tensor& images) {
    check_out("adaptive_max_pool2d", out);
    const ConvGeometry g{.batch = images.dim(0),
                         .channels = images.dim(1),
                         .out = images.dim(1),
                         .size = {images.dim(2), images.dim(3)},
                         .out_size = out};
    OnnxRow row;
    if (g.size.h % out.h == 0 && g.size.w % out.w == 0) {
      const Size2d window{g.size.h / out.h, g.size.w / out.w};
      row = [pool = ConvGeometry{.taps = window, .stride = window}](OnnxCall& c) {
        return c("MaxPool", c.inputs(), onnx_window(pool));
      };
    }
    return pooled("adaptive_max_pool2d", g, images, largest_of_even, std::move(row));
  });
}

Tensor max_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  return for_signal("max_pool1d", x, [&](const Tensor& rows) {
    return max_pool2d(rows, {1, kernel},
                      {.stride = {1, options.stride == 0 ? kernel : options.stride},
                       .padding = {0, options.padding}});
  });
}

Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t out) {
  return for_signal("adaptive_max_pool1d", x, [&](const Tensor& rows) {
    return adaptive_max_pool2d(rows, {1, out});
  });
}

}  // namespace tapegrad
