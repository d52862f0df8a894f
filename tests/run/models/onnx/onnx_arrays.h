#pragma once

// Arrays of the runtime of onnx_support.h, in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tapegrad/base/error.h"

namespace tapegrad::testing {

struct OnnxArray {
  std::vector<std::int64_t> shape;
  std::vector<double> data;

  std::int64_t size(std::int64_t axis) const { return shape.at(place(axis)); }
  std::size_t place(std::int64_t axis) const {
    return static_cast<std::size_t>(axis < 0 ? axis + std::ssize(shape) : axis);
  }
  // The product of the sizes of dimensions [begin, end).
  std::int64_t count(std::size_t begin, std::size_t end) const {
    return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                           shape.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1},
                           std::multiplies<>());
  }
  std::vector<std::int64_t> wholes() const { return {data.begin(), data.end()}; }
};

inline OnnxArray onnx_wholes(const std::vector<std::int64_t>& values) {
  return {{std::ssize(values)}, {values.begin(), values.end()}};
}

// NumPy's broadcasting.
template <class F>
OnnxArray elementwise(const std::vector<OnnxArray>& in, const F& f) {
  OnnxArray out;
  for (const OnnxArray& a : in) {
    while (out.shape.size() < a.shape.size()) out.shape.insert(out.shape.begin(), 1);
  }
  for (const OnnxArray& a : in) {
    for (std::size_t i = 0; i < a.shape.size(); ++i) {
      std::int64_t& size = out.shape[out.shape.size() - a.shape.size() + i];
      check(size == 1 || a.shape[i] == 1 || size == a.shape[i], "sizes {} and {}", size,
            a.shape[i]);
      size = size == 1 ? a.shape[i] : size;
    }
  }
  const std::int64_t n = out.count(0, out.shape.size());
  for (std::int64_t at = 0; at < n; ++at) {
    std::vector<double> x;
    for (const OnnxArray& a : in) {
      std::int64_t rest = at, from = 0, stride = 1;
      for (std::size_t i = 1; i <= out.shape.size(); ++i) {
        const std::int64_t size = out.shape[out.shape.size() - i], index = rest % size;
        rest /= size;
        if (i > a.shape.size()) continue;
        const std::int64_t own = a.shape[a.shape.size() - i];
        if (own != 1) from += index * stride;
        stride *= own;
      }
      x.push_back(a.data[static_cast<std::size_t>(from)]);
    }
    out.data.push_back(f(x));
  }
  return out;
}

// (…, M, K) and (…, K, N) or (K, N).
inline OnnxArray onnx_product(const OnnxArray& a, const OnnxArray& b, bool transposed = false) {
  const std::int64_t M = a.size(-2), K = a.size(-1), N = b.size(transposed ? -2 : -1);
  check(b.size(transposed ? -1 : -2) == K, "inner sizes {} and {}", K, b.size(-2));
  OnnxArray out{a.shape, {}};
  out.shape.back() = N;
  const std::int64_t batch = a.count(0, a.shape.size() - 2);
  for (std::int64_t i = 0; i < batch * M; ++i) {
    const std::int64_t first = b.shape.size() > 2 ? i / M * K * N : 0;
    for (std::int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t at = first + (transposed ? j * K + k : k * N + j);
        sum += a.data[static_cast<std::size_t>(i * K + k)] * b.data[static_cast<std::size_t>(at)];
      }
      out.data.push_back(sum);
    }
  }
  return out;
}

inline OnnxArray onnx_transpose(const OnnxArray& x, const std::vector<std::int64_t>& order) {
  OnnxArray out;
  for (const std::int64_t axis : order) out.shape.push_back(x.size(axis));
  for (std::size_t at = 0; at < x.data.size(); ++at) {
    std::vector<std::int64_t> index(x.shape.size());
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t i = order.size(); i-- > 0; rest /= out.shape[i]) {
      index[static_cast<std::size_t>(order[i])] = rest % out.shape[i];
    }
    std::int64_t from = 0;
    for (std::size_t i = 0; i < index.size(); ++i) from = from * x.shape[i] + index[i];
    out.data.push_back(x.data[static_cast<std::size_t>(from)]);
  }
  return out;
}

// Elements [begin, end) of an axis.
inline OnnxArray onnx_part(const OnnxArray& x, std::size_t axis, std::int64_t begin,
                           std::int64_t end) {
  OnnxArray out{x.shape, {}};
  out.shape[axis] = end - begin;
  const std::int64_t inner = x.count(axis + 1, x.shape.size()), size = x.shape[axis];
  for (std::int64_t o = 0; o < x.count(0, axis); ++o) {
    const auto first = x.data.begin() + (o * size + begin) * inner;
    out.data.insert(out.data.end(), first, first + (end - begin) * inner);
  }
  return out;
}

inline OnnxArray onnx_concat(const std::vector<OnnxArray>& in, std::int64_t along) {
  const std::size_t axis = in[0].place(along);
  OnnxArray out{in[0].shape, {}};
  out.shape[axis] = 0;
  for (const OnnxArray& x : in) out.shape[axis] += x.shape[axis];
  for (std::int64_t o = 0; o < in[0].count(0, axis); ++o) {
    for (const OnnxArray& x : in) {
      const std::int64_t n = x.count(axis, x.shape.size());
      out.data.insert(out.data.end(), x.data.begin() + o * n, x.data.begin() + (o + 1) * n);
    }
  }
  return out;
}

// A function of the rows of the last dimension.
inline OnnxArray onnx_rows(OnnxArray x, const std::function<void(double*, std::int64_t)>& f) {
  const std::int64_t n = x.shape.back();
  for (std::size_t i = 0; i < x.data.size(); i += static_cast<std::size_t>(n)) {
    f(x.data.data() + i, n);
  }
  return x;
}

inline void onnx_softmax(double* row, std::int64_t n) {
  const double most = *std::max_element(row, row + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - most);
  for (std::int64_t i = 0; i < n; ++i) row[i] /= sum;
}

inline void onnx_normalize(double* row, std::int64_t n, double eps) {
  const double mean = std::accumulate(row, row + n, 0.0) / static_cast<double>(n);
  double variance = 0;
  for (std::int64_t i = 0; i < n; ++i) variance += (row[i] - mean) * (row[i] - mean);
  variance /= static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) row[i] = (row[i] - mean) / std::sqrt(variance + eps);
}

// DynamicQuantizeLinear: bytes, their scale, and the byte of 0.
inline std::vector<OnnxArray> onnx_bytes(OnnxArray x) {
  const double low = std::min(0.0, *std::min_element(x.data.begin(), x.data.end()));
  const double high = std::max(0.0, *std::max_element(x.data.begin(), x.data.end()));
  const double scale = (high - low) / 255, zero = std::nearbyint(-low / scale);
  for (double& v : x.data) v = std::clamp(std::nearbyint(v / scale) + zero, 0.0, 255.0);
  return {x, {{}, {scale}}, {{}, {zero}}};
}

}  // namespace tapegrad::testing
