#include <limits>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/conv_geometry.h"

namespace tapegrad {
namespace {

// Which element of its plane of x each output is, i32; −1 for none.
struct Largest {
  Tensor values, indices;
};

Largest largest(const ConvGeometry& g, const Tensor& x) {
  Largest found{Tensor::full(g.y_shape(), -std::numeric_limits<double>::infinity(), x.dtype()),
                Tensor::full(g.y_shape(), -1, DType::i32)};
  const std::vector<TapRange> ranges = tap_ranges(g);
  const std::int64_t stride = g.stride.w;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* values = found.values.mutable_data<T>();
    auto* indices = found.indices.mutable_data<std::int32_t>();
    parallel_for(g.batch * g.channels, plane_grain(g, 1), [&](auto first, auto last) {
      for (std::int64_t p = first; p < last; ++p) {
        const T* plane = from + p * g.size.h * g.size.w;
        walk_plane(g, ranges, [&](auto, auto in, auto out, auto begin, auto end) {
          T* __restrict best = values + p * g.places() + out;
          std::int32_t* __restrict at = indices + p * g.places() + out;
          for (auto t = begin; t < end; ++t) {
            const T v = plane[in + t * stride];
            const bool take = (v > best[t]) | (v != v) | (at[t] < 0);
            best[t] = take ? v : best[t];
            at[t] = take ? static_cast<std::int32_t>(in + t * stride) : at[t];
          }
        });
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

}  // namespace

Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options) {
  const auto [asked, padding, dilation] = options;
  const ConvGeometry pool{.taps = kernel,
                          .stride = stride_or_kernel(asked, kernel),
                          .padding = padding,
                          .dilation = dilation};
  return for_batch("max_pool2d", x, [&](const Tensor& images) {
    const ConvGeometry g = pooling("max_pool2d", images, pool);
    check(g.size.h * g.size.w < kSizeLimit, "[max_pool2d] x {} is too large", x.shape());
    return apply(
        "max_pool2d", {images},
        [g](Inputs in, Saved& saved) {
          const Largest found = largest(g, in[0]);
          saved.keep(found.indices);
          return found.values;
        },
        [g](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
          return {put_largest(g, dy, saved[0])};
        });
  });
}

Tensor max_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  return for_signal("max_pool1d", x, [&](const Tensor& rows) {
    return max_pool2d(rows, {1, kernel},
                      {.stride = {1, options.stride == 0 ? kernel : options.stride},
                       .padding = {0, options.padding}});
  });
}

}  // namespace tapegrad
