#pragma once

// ONNX's ops on images, and those that cut, join and sum, for the runtime of onnx_support.h: by
// Operators.md, one loop for each definition.

#include <run/models/onnx/onnx.pb.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/tests/run/models/onnx/onnx_arrays.h"

namespace tapegrad::testing {

using OnnxAttributes = std::map<std::string, onnx::AttributeProto>;

inline std::vector<std::int64_t> onnx_ints(const OnnxAttributes& at, const std::string& name,
                                           std::vector<std::int64_t> otherwise) {
  const auto found = at.find(name);
  if (found == at.end()) return otherwise;
  return {found->second.ints().begin(), found->second.ints().end()};
}
inline std::int64_t onnx_int(const OnnxAttributes& at, const std::string& name,
                             std::int64_t otherwise) {
  const auto found = at.find(name);
  return found == at.end() ? otherwise : found->second.i();
}

// Where the windows of an image (N, C, H, W) are.
struct OnnxWindows {
  std::vector<std::int64_t> taps, strides, pads, gaps;
  std::int64_t H, W;

  OnnxWindows(const OnnxAttributes& at, const OnnxArray& x, std::vector<std::int64_t> kernel)
      : taps(std::move(kernel)),
        strides(onnx_ints(at, "strides", {1, 1})),
        pads(onnx_ints(at, "pads", {0, 0, 0, 0})),
        gaps(onnx_ints(at, "dilations", {1, 1})),
        H(x.size(2)),
        W(x.size(3)) {}
  std::int64_t count(std::size_t dim) const {
    const std::int64_t size = dim == 0 ? H : W;
    return (size + pads[dim] + pads[dim + 2] - gaps[dim] * (taps[dim] - 1) - 1) / strides[dim] + 1;
  }
  // Calls visit(tap, place) for each tap of window (r, s) that lies inside of an image of H × W.
  template <class Visit>
  void walk(std::int64_t r, std::int64_t s, const Visit& visit) const {
    for (std::int64_t i = 0; i < taps[0]; ++i) {
      for (std::int64_t j = 0; j < taps[1]; ++j) {
        const std::int64_t y = r * strides[0] + i * gaps[0] - pads[0];
        const std::int64_t x = s * strides[1] + j * gaps[1] - pads[1];
        if (y >= 0 && y < H && x >= 0 && x < W) visit(i * taps[1] + j, y * W + x);
      }
    }
  }
};

inline double& onnx_at(OnnxArray& a, std::int64_t i) { return a.data[static_cast<std::size_t>(i)]; }
inline double onnx_at(const OnnxArray& a, std::int64_t i) {
  return a.data[static_cast<std::size_t>(i)];
}

// x (N, C, H, W), w (O, C / group, h, w), a bias (O) or none.
inline OnnxArray onnx_conv(const OnnxAttributes& at, const std::vector<OnnxArray>& in) {
  const OnnxArray &x = in[0], &w = in[1];
  const OnnxWindows windows(at, x, {w.size(2), w.size(3)});
  const std::int64_t N = x.size(0), C = x.size(1), O = w.size(0), group = onnx_int(at, "group", 1);
  const std::int64_t own = C / group, h = windows.count(0), l = windows.count(1);
  OnnxArray y{{N, O, h, l}, {}};
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t o = 0; o < O; ++o) {
      for (std::int64_t place = 0; place < h * l; ++place) {
        double sum = in.size() > 2 ? onnx_at(in[2], o) : 0;
        for (std::int64_t c = 0; c < own; ++c) {
          const std::int64_t plane = n * C + o / (O / group) * own + c;
          const std::int64_t taps = (o * own + c) * w.size(2) * w.size(3);
          windows.walk(place / l, place % l, [&](auto tap, auto of_x) {
            sum += onnx_at(x, plane * x.size(2) * x.size(3) + of_x) * onnx_at(w, taps + tap);
          });
        }
        y.data.push_back(sum);
      }
    }
  }
  return y;
}

// x (N, C, H, W), w (C, O / group, h, w): what is added to where a convolution would have read.
inline OnnxArray onnx_conv_transpose(const OnnxAttributes& at, const std::vector<OnnxArray>& in) {
  const OnnxArray &x = in[0], &w = in[1];
  const auto more = onnx_ints(at, "output_padding", {0, 0});
  OnnxWindows windows(at, x, {w.size(2), w.size(3)});
  const auto grown = [&](std::size_t dim, std::int64_t size) {
    return (size - 1) * windows.strides[dim] - windows.pads[dim] - windows.pads[dim + 2] +
           windows.gaps[dim] * (windows.taps[dim] - 1) + 1 + more[dim];
  };
  const std::int64_t N = x.size(0), C = x.size(1), group = onnx_int(at, "group", 1);
  const std::int64_t own = w.size(1), O = own * group, places = x.size(2) * x.size(3);
  windows.H = grown(0, x.size(2));
  windows.W = grown(1, x.size(3));
  const std::int64_t size = windows.H * windows.W;
  OnnxArray y{{N, O, windows.H, windows.W}, {}};
  for (std::int64_t i = 0; i < N * O * size; ++i) {
    y.data.push_back(in.size() > 2 ? onnx_at(in[2], i / size % O) : 0);
  }
  for (std::int64_t i = 0; i < N * C * places; ++i) {
    const std::int64_t n = i / places / C, c = i / places % C, place = i % places;
    for (std::int64_t o = 0; o < own; ++o) {
      const std::int64_t plane = n * O + c / (C / group) * own + o;
      const std::int64_t taps = (c * own + o) * w.size(2) * w.size(3);
      windows.walk(place / x.size(3), place % x.size(3), [&](auto tap, auto of_y) {
        onnx_at(y, plane * size + of_y) += onnx_at(x, i) * onnx_at(w, taps + tap);
      });
    }
  }
  return y;
}

inline OnnxArray onnx_pool(const OnnxAttributes& at, const OnnxArray& x, bool largest) {
  const OnnxWindows windows(at, x, onnx_ints(at, "kernel_shape", {}));
  const std::int64_t planes = x.size(0) * x.size(1), size = x.size(2) * x.size(3);
  const std::int64_t h = windows.count(0), l = windows.count(1);
  const bool counts_all = onnx_int(at, "count_include_pad", 0) == 1;
  OnnxArray y{{x.size(0), x.size(1), h, l}, {}};
  for (std::int64_t i = 0; i < planes * h * l; ++i) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
    windows.walk(i % (h * l) / l, i % l, [&](auto, auto place) {
      const double v = onnx_at(x, i / (h * l) * size + place);
      most = std::max(most, v);
      sum += v;
      ++count;
    });
    if (counts_all) count = static_cast<double>(windows.taps[0] * windows.taps[1]);
    y.data.push_back(largest ? most : sum / count);
  }
  return y;
}

// f of the elements of each group that differs in `axes` alone; without axes, of all.
inline OnnxArray onnx_reduce(const OnnxArray& x, const std::vector<std::int64_t>& axes,
                             bool keepdims,
                             const std::function<double(const std::vector<double>&)>& f) {
  std::vector<bool> marked(x.shape.size(), axes.empty());
  for (const std::int64_t axis : axes) marked[x.place(axis)] = true;
  OnnxArray kept{x.shape, {}};
  for (std::size_t i = 0; i < marked.size(); ++i) kept.shape[i] = marked[i] ? 1 : x.shape[i];
  std::vector<std::vector<double>> groups(
      static_cast<std::size_t>(kept.count(0, kept.shape.size())));
  for (std::size_t at = 0; at < x.data.size(); ++at) {
    auto rest = static_cast<std::int64_t>(at);
    std::int64_t to = 0, stride = 1;
    for (std::size_t i = x.shape.size(); i-- > 0; rest /= x.shape[i]) {
      to += marked[i] ? 0 : rest % x.shape[i] * stride;
      stride *= kept.shape[i];
    }
    groups[static_cast<std::size_t>(to)].push_back(x.data[at]);
  }
  for (const auto& group : groups) kept.data.push_back(f(group));
  for (std::size_t i = marked.size(); i-- > 0 && !keepdims;) {
    if (marked[i]) kept.shape.erase(kept.shape.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return kept;
}

// Products of matrices, whose other dimensions are broadcast; a vector is a row or a column.
inline OnnxArray onnx_matmul(OnnxArray a, OnnxArray b) {
  const bool is_row = a.shape.size() == 1, is_column = b.shape.size() == 1;
  if (is_row) a.shape.insert(a.shape.begin(), 1);
  if (is_column) b.shape.push_back(1);
  const std::int64_t M = a.size(-2), K = a.size(-1), N = b.size(-1);
  check(b.size(-2) == K, "inner sizes {} and {}", K, b.size(-2));
  const auto numbers = [](const OnnxArray& of) {  // of its matrices
    OnnxArray all{{of.shape.begin(), of.shape.end() - 2}, {}};
    for (std::int64_t i = 0; i < all.count(0, all.shape.size()); ++i) {
      all.data.push_back(static_cast<double>(i));
    }
    return all;
  };
  using X = const std::vector<double>&;
  const OnnxArray left = elementwise({numbers(a), numbers(b)}, [](X x) { return x[0]; });
  const OnnxArray right = elementwise({numbers(a), numbers(b)}, [](X x) { return x[1]; });
  OnnxArray y{left.shape, {}};
  if (!is_row) y.shape.push_back(M);
  if (!is_column) y.shape.push_back(N);
  for (std::size_t batch = 0; batch < left.data.size(); ++batch) {
    const auto from_a = static_cast<std::int64_t>(left.data[batch]) * M * K;
    const auto from_b = static_cast<std::int64_t>(right.data[batch]) * K * N;
    for (std::int64_t i = 0; i < M * N; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        sum += onnx_at(a, from_a + i / N * K + k) * onnx_at(b, from_b + k * N + i % N);
      }
      y.data.push_back(sum);
    }
  }
  return y;
}

// Elements begin, begin + step … before `end` of an axis.
inline OnnxArray onnx_slice(const OnnxArray& x, const std::vector<OnnxArray>& in) {
  const std::size_t axis = x.place(in.at(3).wholes().at(0));
  const std::int64_t size = x.shape[axis], begin = std::min(in.at(1).wholes().at(0), size);
  const double asked = in.at(2).data.at(0);
  const std::int64_t end =
      asked >= static_cast<double>(size) ? size : static_cast<std::int64_t>(asked);
  const std::int64_t step = in.size() > 4 ? in[4].wholes().at(0) : 1;
  if (step == 1) return onnx_part(x, axis, begin, end);
  std::vector<OnnxArray> parts;
  for (std::int64_t i = begin; i < end; i += step) parts.push_back(onnx_part(x, axis, i, i + 1));
  return onnx_concat(parts, static_cast<std::int64_t>(axis));
}

// Zeros before and behind each dimension.
inline OnnxArray onnx_pad(OnnxArray x, const std::vector<std::int64_t>& pads) {
  const std::size_t rank = x.shape.size();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto zeros = [&](std::int64_t n) {
      OnnxArray part{x.shape, {}};
      part.shape[axis] = n;
      part.data.assign(static_cast<std::size_t>(part.count(0, rank)), 0);
      return part;
    };
    x = onnx_concat({zeros(pads[axis]), x, zeros(pads[rank + axis])},
                    static_cast<std::int64_t>(axis));
  }
  return x;
}

// Along an axis, of which element `index` names that of x.
inline OnnxArray onnx_gather_elements(const OnnxArray& x, const OnnxArray& index,
                                      std::size_t axis) {
  OnnxArray y{index.shape, {}};
  for (std::size_t at = 0; at < index.data.size(); ++at) {
    auto rest = static_cast<std::int64_t>(at);
    std::int64_t from = 0, stride = 1;
    for (std::size_t i = x.shape.size(); i-- > 0; rest /= index.shape[i]) {
      const bool chosen = i == axis;
      from += (chosen ? static_cast<std::int64_t>(index.data[at]) : rest % index.shape[i]) * stride;
      stride *= x.shape[i];
    }
    y.data.push_back(onnx_at(x, from));
  }
  return y;
}

inline OnnxArray onnx_cumsum(OnnxArray x, std::int64_t along, bool reverse) {
  const std::size_t axis = x.place(along);
  const std::int64_t n = x.shape[axis], inner = x.count(axis + 1, x.shape.size());
  for (std::int64_t i = 0; i < std::ssize(x.data); ++i) {
    const std::int64_t at = reverse ? std::ssize(x.data) - 1 - i : i;
    const bool is_first = at / inner % n == (reverse ? n - 1 : 0);
    if (!is_first) onnx_at(x, at) += onnx_at(x, reverse ? at + inner : at - inner);
  }
  return x;
}

// One of the reductions, or nothing.
inline std::optional<OnnxArray> onnx_reduced(const std::string& op, const OnnxAttributes& at,
                                             const std::vector<OnnxArray>& in) {
  using X = const std::vector<double>&;
  const auto sum = [](X v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  const auto most = [](X v) { return *std::max_element(v.begin(), v.end()); };
  const std::map<std::string, std::function<double(X)>> functions = {
      {"ReduceSum", sum},
      {"ReduceMean", [&](X v) { return sum(v) / static_cast<double>(v.size()); }},
      {"ReduceMax", most},
      {"ReduceProd",
       [](X v) { return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>()); }},
      {"ReduceLogSumExp", [&](X v) {
         double total = 0;
         for (const double x : v) total += std::exp(x - most(v));
         return std::log(total) + most(v);
       }}};
  const auto f = functions.find(op);
  if (f == functions.end()) return std::nullopt;
  const auto axes = in.size() > 1 ? in[1].wholes() : onnx_ints(at, "axes", {});
  return onnx_reduce(in[0], axes, onnx_int(at, "keepdims", 1) == 1, f->second);
}

// A convolution of signals (N, C, L) is one of images with a single row.
inline OnnxArray onnx_any_conv(OnnxAttributes at, std::vector<OnnxArray> in) {
  if (in[0].shape.size() == 4) return onnx_conv(at, in);
  for (const std::size_t i : {0, 1}) in[i].shape.insert(in[i].shape.begin() + 2, 1);
  const std::vector<std::int64_t> pads = onnx_ints(at, "pads", {0, 0});
  at["pads"].clear_ints();
  for (const std::int64_t pad : {std::int64_t{0}, pads[0], std::int64_t{0}, pads[1]}) {
    at["pads"].add_ints(pad);
  }
  OnnxArray y = onnx_conv(at, in);
  y.shape.erase(y.shape.begin() + 2);
  return y;
}

}  // namespace tapegrad::testing
