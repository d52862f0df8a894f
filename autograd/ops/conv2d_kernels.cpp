#include "tapegrad/autograd/ops/internal/conv2d_kernels.h"

#include <algorithm>
#include <vector>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/ops/internal/conv2d_columns.h"

namespace tapegrad {
namespace {

// The sums of weight gradients that are made side by side, and the most bytes that they may take.
constexpr std::int64_t kMostParts = 16, kPartBytes = 64 << 20;

// Threads share out the units. A single one is left to the threads of what it calls.
template <class F>
void share(std::int64_t units, const F& run) {
  if (units == 1) return run(0);
  parallel_for(units, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) run(i);
  });
}

template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t n) : scratch_(static_cast<std::size_t>(n) * sizeof(T)) {}
  T* data() const { return static_cast<T*>(scratch_.data()); }

 private:
  Scratch scratch_;
};

// The products of one convolution for elements of type T.
template <class T>
class Products {
 public:
  explicit Products(const ConvGeometry& geometry)
      : g_(geometry),
        pieces_(geometry, sizeof(T)),
        out_(g_.out / g_.groups),
        plain_(g_.taps.h * g_.taps.w == 1 && g_.stride.h == 1 && g_.stride.w == 1 &&
               g_.padding.h == 0 && g_.padding.w == 0) {}

  void forward(const T* x, const T* w, const T* bias, T* y) const {
    share(g_.groups * pieces_.count(), [&](std::int64_t i) {
      const std::int64_t group = i % g_.groups;
      const Piece piece = pieces_[i / g_.groups];
      const Columns columns(*this, piece, group, x);
      const Rows rows(*this, piece, group);
      T* to = rows.place(y);
      if (bias != nullptr) {
        for (std::int64_t o = 0; o < out_; ++o) {
          std::fill_n(to + o * rows.stride, piece.places(), bias[group * out_ + o]);
        }
      }
      gemm(Gemm<T>{.m = out_,
                   .n = piece.places(),
                   .k = g_.depth(),
                   .a = w + group * out_ * g_.depth(),
                   .lda = g_.depth(),
                   .b = columns.data,
                   .ldb = columns.stride,
                   .c = to,
                   .ldc = rows.stride,
                   .beta = bias != nullptr ? T{1} : T{0}});
      rows.scatter(y);
    });
  }

  // dx is zeros before.
  void input_gradient(const T* dy, const T* w, T* dx) const {
    share(g_.groups * pieces_.chunks, [&](std::int64_t i) {
      const std::int64_t group = i % g_.groups, chunk = i / g_.groups;
      for (std::int64_t k = chunk * pieces_.cuts; k < (chunk + 1) * pieces_.cuts; ++k) {
        const Piece piece = pieces_[k];
        const Rows rows(*this, piece, group);
        const bool direct = plain_ && piece.images == 1;
        const Buffer<T> columns(direct ? 0 : g_.depth() * piece.places());
        T* to = dx + x_offset(piece, group) + (direct ? piece.begin : 0);
        gemm(Gemm<T>{.ta = true,
                     .m = g_.depth(),
                     .n = piece.places(),
                     .k = out_,
                     .a = w + group * out_ * g_.depth(),
                     .lda = g_.depth(),
                     .b = rows.gather(dy),
                     .ldb = rows.stride,
                     .c = direct ? to : columns.data(),
                     .ldc = direct ? g_.places() : piece.places()});
        if (!direct) fold(g_, piece, columns.data(), to);
      }
    });
  }

  // `parts` are sums over fixed shares of the pieces: (parts, out, depth).
  std::int64_t part_count() const {
    const auto bytes = static_cast<std::int64_t>(sizeof(T)) * std::max<std::int64_t>(1, g_.out) *
                       std::max<std::int64_t>(1, g_.depth());
    return std::clamp<std::int64_t>(std::min(kMostParts, kPartBytes / bytes), 1,
                                    std::max<std::int64_t>(1, pieces_.count()));
  }
  void weight_gradient(const T* dy, const T* x, T* parts) const {
    const std::int64_t count = pieces_.count(), n_parts = part_count();
    share(g_.groups * n_parts, [&](std::int64_t i) {
      const std::int64_t group = i % g_.groups, part = i / g_.groups;
      T* sum = parts + (part * g_.groups + group) * out_ * g_.depth();
      const std::int64_t first = part * count / n_parts;
      for (std::int64_t k = first; k < (part + 1) * count / n_parts; ++k) {
        const Piece piece = pieces_[k];
        const Columns columns(*this, piece, group, x);
        const Rows rows(*this, piece, group);
        gemm(Gemm<T>{.tb = true,
                     .m = out_,
                     .n = g_.depth(),
                     .k = piece.places(),
                     .a = rows.gather(dy),
                     .lda = rows.stride,
                     .b = columns.data,
                     .ldb = columns.stride,
                     .c = sum,
                     .ldc = g_.depth(),
                     .beta = k == first ? T{0} : T{1}});
      }
    });
  }

 private:
  std::int64_t x_offset(const Piece& piece, std::int64_t group) const {
    const std::int64_t channel = piece.image * g_.channels + group * (g_.channels / g_.groups);
    return channel * g_.size.h * g_.size.w;
  }

  // The columns of a piece: x itself, if the kernel has one tap.
  struct Columns {
    Columns(const Products& p, const Piece& piece, std::int64_t group, const T* x)
        : direct(p.plain_ && piece.images == 1),
          buffer(direct ? 0 : p.g_.depth() * piece.places()),
          data(direct ? x + p.x_offset(piece, group) + piece.begin : buffer.data()),
          stride(direct ? p.g_.places() : piece.places()) {
      if (!direct) unfold(p.g_, piece, x + p.x_offset(piece, group), buffer.data());
    }
    bool direct;
    Buffer<T> buffer;
    const T* data;
    std::int64_t stride;
  };

  // A piece of y or dy as a matrix (out / groups, places). Of one image it lies there already; of
  // several it is a copy.
  struct Rows {
    Rows(const Products& p, const Piece& a_piece, std::int64_t group)
        : piece(a_piece),
          out(p.out_),
          image(p.g_.out * p.g_.places()),
          plane(p.g_.places()),
          offset(piece.image * image + group * out * plane + piece.begin),
          buffer(piece.images == 1 ? 0 : out * piece.places()),
          stride(piece.images == 1 ? plane : piece.places()) {}

    T* place(T* y) const { return piece.images == 1 ? y + offset : buffer.data(); }
    const T* gather(const T* y) const {
      if (piece.images == 1) return y + offset;
      each([&](auto at, auto in_buffer) { std::copy_n(y + at, plane, buffer.data() + in_buffer); });
      return buffer.data();
    }
    void scatter(T* y) const {
      if (piece.images == 1) return;
      each([&](auto at, auto in_buffer) { std::copy_n(buffer.data() + in_buffer, plane, y + at); });
    }
    template <class F>
    void each(const F& copy) const {
      parallel_for(out, kElementGrain / piece.places() + 1, [&](auto begin, auto end) {
        for (std::int64_t o = begin; o < end; ++o) {
          for (std::int64_t m = 0; m < piece.images; ++m) {
            copy(offset + m * image + o * plane, o * stride + m * plane);
          }
        }
      });
    }

    Piece piece;
    std::int64_t out, image, plane, offset;
    Buffer<T> buffer;
    std::int64_t stride;
  };

  ConvGeometry g_;
  Pieces pieces_;
  std::int64_t out_;
  bool plain_;  // the columns are x
};

// Several groups of one channel each: output plane o meets plane o / (out / channels) of x alone.
// One channel by itself is faster multiplied: its columns serve all outputs.
bool is_depthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.channels == g.groups && g.depth() > 0;
}

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
  const std::vector<TapRange> ranges = tap_ranges(g);
  const std::int64_t plane = g.size.h * g.size.w, multiple = g.out / g.channels, s = g.stride.w;
  parallel_for(g.batch * g.out, plane_grain(g, 1), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p) {
      const T* from = x + p / multiple * plane;
      const T* taps = w + p % g.out * g.depth();
      T* to = y + p * g.places();
      std::fill_n(to, g.places(), bias != nullptr ? bias[p % g.out] : T{0});
      walk_plane(g, ranges, [=](auto tap, auto in, auto out, auto n) {
        const T factor = taps[tap];
        T* __restrict row = to + out;
        const T* __restrict elements = from + in;
        if (s == 1) {
          for (std::int64_t t = 0; t < n; ++t) row[t] += factor * elements[t];
        } else {
          for (std::int64_t t = 0; t < n; ++t) row[t] += factor * elements[t * s];
        }
      });
    }
  });
}

// dx is zeros before.
template <class T>
void depthwise_input_gradient(const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  const std::vector<TapRange> ranges = tap_ranges(g);
  const std::int64_t plane = g.size.h * g.size.w, multiple = g.out / g.channels, s = g.stride.w;
  parallel_for(g.batch * g.channels, plane_grain(g, multiple), [&](auto first, auto last) {
    for (std::int64_t p = first * multiple; p < last * multiple; ++p) {
      T* to = dx + p / multiple * plane;
      const T* taps = w + p % g.out * g.depth();
      const T* from = dy + p * g.places();
      walk_plane(g, ranges, [=](auto tap, auto in, auto out, auto n) {
        const T factor = taps[tap];
        const T* __restrict row = from + out;
        T* __restrict elements = to + in;
        if (s == 1) {
          for (std::int64_t t = 0; t < n; ++t) elements[t] += factor * row[t];
        } else {
          for (std::int64_t t = 0; t < n; ++t) elements[t * s] += factor * row[t];
        }
      });
    }
  });
}

template <class T>
void depthwise_weight_gradient(const ConvGeometry& g, const T* dy, const T* x, T* dw) {
  const std::vector<TapRange> ranges = tap_ranges(g);
  const std::int64_t plane = g.size.h * g.size.w, multiple = g.out / g.channels, s = g.stride.w;
  parallel_for(g.out, plane_grain(g, g.batch), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t o = first; o < last; ++o) {
      std::vector<double> sums(static_cast<std::size_t>(g.depth()), 0.0);
      for (std::int64_t n = 0; n < g.batch; ++n) {
        const T* rows = dy + (n * g.out + o) * g.places();
        const T* elements = x + (n * g.channels + o / multiple) * plane;
        walk_plane(g, ranges, [&](auto tap, auto in, auto out, auto places) {
          const T *row = rows + out, *from = elements + in;
          sums[static_cast<std::size_t>(tap)] += static_cast<double>(
              s == 1 ? sum_row<T>(places, [=](auto t) { return row[t] * from[t]; })
                     : sum_row<T>(places, [=](auto t) { return row[t] * from[t * s]; }));
        });
      }
      std::transform(sums.begin(), sums.end(), dw + o * g.depth(),
                     [](double sum) { return static_cast<T>(sum); });
    }
  });
}

}  // namespace

Tensor conv2d_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias) {
  Tensor y = Tensor::empty(g.y_shape(), x.dtype());
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* b = bias.defined() ? bias.data<T>() : nullptr;
    if (is_depthwise(g)) {
      depthwise_forward(g, x.data<T>(), w.data<T>(), b, y.mutable_data<T>());
    } else {
      Products<T>(g).forward(x.data<T>(), w.data<T>(), b, y.mutable_data<T>());
    }
  });
  return y;
}

Tensor conv2d_input_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& w) {
  Tensor dx = Tensor::zeros(g.x_shape(), dy.dtype());
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (is_depthwise(g)) {
      depthwise_input_gradient(g, dy.data<T>(), w.data<T>(), dx.mutable_data<T>());
    } else {
      Products<T>(g).input_gradient(dy.data<T>(), w.data<T>(), dx.mutable_data<T>());
    }
  });
  return dx;
}

Tensor conv2d_weight_gradient(const ConvGeometry& g, const Tensor& dy, const Tensor& x) {
  return dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (is_depthwise(g)) {
      Tensor dw = Tensor::empty(g.weight_shape(), dy.dtype());
      depthwise_weight_gradient(g, dy.data<T>(), x.data<T>(), dw.mutable_data<T>());
      return dw;
    }
    const Products<T> products(g);
    const std::int64_t parts = products.part_count();
    Tensor sums = Tensor::zeros(g.weight_shape().inserted(0, parts), dy.dtype());
    products.weight_gradient(dy.data<T>(), x.data<T>(), sums.mutable_data<T>());
    return parts == 1 ? sums.view(g.weight_shape()) : sum(sums, {0});
  });
}

}  // namespace tapegrad
