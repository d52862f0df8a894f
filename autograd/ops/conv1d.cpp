#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// A convolution is one product of matrices for each group. The columns that the weights multiply
// are (groups, C/groups·K, N·L_out): the elements of x that tap k of channel c meets, one for each
// place of the output.
struct Windows {
  std::int64_t batch, channels, length, taps, out_length;
  Conv1dOptions options;

  Shape x_shape() const { return {batch, channels, length}; }
  Shape columns_shape() const {
    const Shape shape{channels / options.groups * taps, batch * out_length};
    return options.groups == 1 ? shape : shape.inserted(0, options.groups);
  }

  // Calls visit(x_offset, column_offset, begin, end) for each channel, tap and text: outputs
  // [begin, end) see x at x_offset + t·stride, the others see padding. Threads share out channels.
  template <class Visit>
  void walk(const Visit& visit) const {
    const auto [stride, padding, dilation, groups] = options;
    const std::int64_t work = std::max<std::int64_t>(1, taps * batch * out_length);
    parallel_for(
        channels, kElementGrain / work + 1,
        [&, stride = stride, padding = padding, dilation = dilation](auto first, auto last) {
          for (std::int64_t i = first * taps; i < last * taps; ++i) {
            const std::int64_t c = i / taps, shift = i % taps * dilation - padding;
            const std::int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
            const std::int64_t end = shift >= length ? 0 : (length - shift + stride - 1) / stride;
            for (std::int64_t n = 0; n < batch; ++n) {
              visit((n * channels + c) * length + shift, (i * batch + n) * out_length,
                    std::min(begin, out_length), std::min(end, out_length));
            }
          }
        });
  }
};

Tensor fold(const Tensor& columns, const Windows& windows);

// ONNX has no op for this: the elements that each tap meets are a slice with steps.
OnnxValue onnx_columns(OnnxCall& c, const Windows& w) {
  const auto [stride, padding, dilation, groups] = w.options;
  const OnnxValue padded = c("Pad", {c.in(0), c.wholes({0, 0, padding, 0, 0, padding})});
  std::vector<OnnxValue> taps;  // each (N, C, 1, L_out)
  for (std::int64_t tap = 0; tap < w.taps; ++tap) {
    const std::int64_t begin = tap * dilation, end = begin + (w.out_length - 1) * stride + 1;
    const OnnxValue met =
        c("Slice", {padded, c.wholes({begin}), c.wholes({end}), c.wholes({2}), c.wholes({stride})});
    taps.push_back(c("Unsqueeze", {met, c.wholes({2})}));
  }
  const OnnxValue all = c("Concat", taps, {{"axis", std::int64_t{2}}});
  const OnnxValue by_channel = c("Transpose", {all}, {{"perm", OnnxWholes{1, 2, 0, 3}}});
  return c("Reshape", {by_channel, c.sizes(w.columns_shape())});
}

Tensor unfold(const Tensor& x, const Windows& windows) {
  return apply(
      "unfold", {x},
      [windows](Inputs in, Saved& saved) {
        Tensor columns = Tensor::empty(windows.columns_shape(), saved.keep(in[0]).dtype());
        dispatch(columns.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = columns.mutable_data<T>();
          const std::int64_t stride = windows.options.stride, n = windows.out_length;
          windows.walk([=](auto x_offset, auto offset, auto begin, auto end) {
            T* row = to + offset;
            std::fill(row, row + begin, T{0});
            for (auto t = begin; t < end; ++t) row[t] = from[x_offset + t * stride];
            std::fill(row + std::max(begin, end), row + n, T{0});
          });
        });
        return columns;
      },
      [windows](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {fold(dy, windows)};
      },
      {.cheap = true, .onnx = [windows](OnnxCall& c) { return onnx_columns(c, windows); }});
}

// The derivative of unfold: adds each element of the columns to the element of x that it came from.
Tensor fold(const Tensor& columns, const Windows& windows) {
  return apply(
      "fold", {columns},
      [windows](Inputs in, Saved&) {
        Tensor x = Tensor::zeros(windows.x_shape(), in[0].dtype());
        dispatch(x.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* to = x.mutable_data<T>();
          const std::int64_t stride = windows.options.stride;
          windows.walk([=](auto x_offset, auto offset, auto begin, auto end) {
            for (auto t = begin; t < end; ++t) to[x_offset + t * stride] += from[offset + t];
          });
        });
        return x;
      },
      [windows](const Tensor& ddx, const Saved&, const Needs&) -> Grads {
        return {unfold(ddx, windows)};
      });
}

Windows checked_windows(const Shape& x, const Shape& weight, const Conv1dOptions& options) {
  const auto [stride, padding, dilation, groups] = options;
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  check(weight.rank() == 3, "[conv1d] the weight must be (out, in / groups, taps), not {}", weight);
  check(stride > 0 && dilation > 0 && groups > 0 && padding >= 0,
        "[conv1d] stride {}, dilation {} and groups {} must be above 0, padding {} not below",
        stride, dilation, groups, padding);
  check(stride < kLimit && dilation < kLimit && padding < kLimit && weight[2] < kLimit,
        "[conv1d] stride {}, dilation {}, padding {} or the {} taps are too large", stride,
        dilation, padding, weight[2]);
  check(x[1] % groups == 0 && weight[0] % groups == 0,
        "[conv1d] {} groups divide neither x {} nor the weight {} evenly", groups, x, weight);
  check(weight[1] == x[1] / groups, "[conv1d] x {} in {} groups does not fit weight {}", x, groups,
        weight);
  const std::int64_t reach = dilation * (weight[2] - 1) + 1, padded = x[2] + 2 * padding;
  check(weight[2] > 0 && reach <= padded,
        "[conv1d] a kernel that reaches over {} does not fit into {} padded elements", reach,
        padded);
  return {x[0], x[1], x[2], weight[2], (padded - reach) / stride + 1, options};
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (x.rank() == 2) {
    const Tensor y = conv1d(reshape(x, x.shape().inserted(0, 1)), weight, bias, options);
    return reshape(y, y.shape().without(0));
  }
  check(x.rank() == 3, "[conv1d] x must be (N, C, L) or (C, L), not {}", x.shape());
  const Windows windows = checked_windows(x.shape(), weight.shape(), options);
  const std::int64_t out = weight.dim(0), groups = options.groups;
  check(!bias.defined() || bias.shape() == Shape{out}, "[conv1d] bias {} does not fit weight {}",
        bias.defined() ? bias.shape() : Shape{}, weight.shape());
  Shape matrix{out / groups, weight.dim(1) * windows.taps};
  if (groups > 1) matrix = matrix.inserted(0, groups);
  const Tensor product = matmul(reshape(weight, matrix), unfold(x, windows));
  const std::int64_t n = windows.batch, length = windows.out_length;
  const Tensor y = n == 1 ? reshape(product, {1, out, length})
                          : permute(reshape(product, {out, n, length}), {1, 0, 2});
  return bias.defined() ? y + reshape(bias, {out, 1}) : y;
}

}  // namespace tapegrad
