#pragma once

// Helpers that the norms of rows share.

#include <array>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// Rows whose weight gradients are summed by one thread: fixed, so that the sum does not depend on
// the number of threads.
inline constexpr std::int64_t kRowChunk = 64;

inline std::int64_t row_grain(std::int64_t n) {
  return std::max<std::int64_t>(1, kElementGrain / 2 / std::max<std::int64_t>(1, n));
}

// 1/√(square + eps), or 1/(√square + eps) if eps is outside of the root. In double, so that it is
// rounded once. A mean square that overflowed shows as NaN: its inverse, 0, would make a row of
// zeros.
template <class T>
T inverse_root(T square, double eps, bool eps_outside = false) {
  if (std::isinf(square)) return std::numeric_limits<T>::quiet_NaN();
  const auto wide = static_cast<double>(square);
  return static_cast<T>(eps_outside ? 1 / (std::sqrt(wide) + eps) : 1 / std::sqrt(wide + eps));
}

// x with NaN where it is ∞: what inverse_root does, for reference forms.
inline Tensor without_overflow(const Tensor& x) {
  const Tensor overflow = eq(x, std::numeric_limits<double>::infinity());
  return masked_fill(x, overflow, std::numeric_limits<double>::quiet_NaN());
}

// N sums over `rows` rows, each (n). Calls f(r, sums) for each row, which adds to sums[i][0 … n).
template <class T, std::size_t N, class F>
std::array<Tensor, N> sums_over_rows(std::int64_t rows, std::int64_t n, const F& f) {
  const std::int64_t chunks = (rows + kRowChunk - 1) / kRowChunk;
  Tensor partial = Tensor::zeros({static_cast<std::int64_t>(N), chunks, n}, dtype_of<T>());
  T* data = partial.mutable_data<T>();
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::array<T*, N> sums;
      for (std::size_t i = 0; i < N; ++i) {
        sums[i] = data + (static_cast<std::int64_t>(i) * chunks + c) * n;
      }
      for (std::int64_t r = c * kRowChunk; r < std::min(rows, (c + 1) * kRowChunk); ++r) f(r, sums);
    }
  });
  std::array<Tensor, N> results;
  for (std::size_t i = 0; i < N; ++i) {
    const auto k = static_cast<std::int64_t>(i);
    results[i] = sum(partial.rows(k, k + 1), {0, 1});
  }
  return results;
}

}  // namespace tapegrad
