#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/kernels/internal/register_bytes.h"

namespace tapegrad {

// x·y + z, rounded once where the processor can. Left to a compiler, that would depend on the loop.
template <class T>
T multiply_add(T x, T y, T z) {
#if defined(__FMA__) || defined(__aarch64__)
  return std::fma(x, y, z);
#else
  return x * y + z;
#endif
}

// C = alpha·A·B, or C += alpha·A·B, for operands that lie in the processor's cache: B and C are
// read and written where they are. A library's product packs its operands first, which takes longer
// than a product of attention's size. Element (i, p) of A is a[i·a_row + p·a_column], so A may be
// transposed.
template <class T>
struct SmallProduct {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t ldb;
  T* c;
  std::int64_t ldc;
  T alpha = 1;
  bool add = false;

  // Long sums are made of parts, so that roundings do not grow with their length.
  static constexpr std::int64_t kDepth = 256;
  void operator()() const {
    if (m == 0) return;
    if (k == 0) {  // a and b may have no data to point into
      for (std::int64_t j = 0; j < n; ++j) column(j);
      return;
    }
    SmallProduct part = *this;
    for (std::int64_t p = 0; p < k; p += kDepth) {
      part.k = k - p < kDepth ? k - p : kDepth;
      part.a = a + p * a_column;
      part.b = b + p * ldb;
      part.add = add || p > 0;
      part.template columns<kMostVectors>(0);
    }
  }

 private:
  // Sums stay in registers, kRows of kMostVectors registers each: 16 of the processor's 32
  // registers, or 12 of its 16. Fewer sums would wait for each other.
  static constexpr std::size_t kRegister = kRegisterBytes;
  static constexpr int kRows = kRegister == 64 ? 8 : 6;
  static constexpr int kMostVectors = 2;
  static constexpr std::int64_t kWidth = kRegister / sizeof(T);
  typedef T Vector __attribute__((vector_size(kRegister)));

  static Vector load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
  }

  // The columns from j on, N registers of them at a time, then fewer, then one by one.
  template <int N>
  void columns(std::int64_t j) const {
    for (; j + N * kWidth <= n; j += N * kWidth) rows<kRows, N>(0, j);
    if constexpr (N > 1) {
      columns<N / 2>(j);
    } else {
      for (; j < n; ++j) column(j);
    }
  }

  template <int R, int N>
  void rows(std::int64_t i, std::int64_t j) const {
    for (; i + R <= m; i += R) block<R, N>(i, j);
    if constexpr (R > 1) {
      if (i < m) rows<(R > 4 ? 4 : R / 2), N>(i, j);
    }
  }

  // R rows of N registers.
  template <int R, int N>
  void block(std::int64_t i, std::int64_t j) const {
    Vector sums[R][N] = {};
    const T *from = a + i * a_row, *row = b + j;
    for (std::int64_t p = 0; p < k; ++p, row += ldb) {
      Vector x[N];
      for (int v = 0; v < N; ++v) x[v] = load(row + v * kWidth);
      for (int r = 0; r < R; ++r) {
        const T factor = from[r * a_row + p * a_column];
        for (int v = 0; v < N; ++v) sums[r][v] += x[v] * factor;
      }
    }
    T* to = c + i * ldc + j;
    const std::int64_t step = ldc;
    const T by = alpha;
    const bool adds = add;
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < N; ++v) {
        T* place = to + r * step + v * kWidth;
        const Vector sum = sums[r][v] * by, result = adds ? load(place) + sum : sum;
        std::memcpy(place, &result, sizeof(result));
      }
    }
  }

  void column(std::int64_t j) const {
    for (std::int64_t i = 0; i < m; ++i) {
      T sum = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum = multiply_add(a[i * a_row + p * a_column], b[p * ldb + j], sum);
      }
      T& to = c[i * ldc + j];
      to = add ? to + alpha * sum : alpha * sum;
    }
  }
};

// Counts multiplications of small products, for profiles: gemm counts its own.
inline std::atomic<std::int64_t> small_multiplications{0};
inline void count_small_products(std::int64_t n) {
  small_multiplications.fetch_add(n, std::memory_order_relaxed);
}
// Floating-point operations of all small products so far, as gemm_flops() counts them.
inline double small_product_flops() {
  return 2.0 * static_cast<double>(small_multiplications.load(std::memory_order_relaxed));
}

// to (columns, rows) = factor·fromᵀ.
template <class T>
void transpose(const T* from, std::int64_t ld_from, std::int64_t rows, std::int64_t columns,
               T factor, T* to, std::int64_t ld_to) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T))));
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* x = from + r * ld_from;
    std::int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      Four in[4], out[4];
      for (int i = 0; i < 4; ++i) std::memcpy(&in[i], x + i * ld_from + c, sizeof(Four));
      const Four a = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
      const Four b = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
      const Four d = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
      const Four e = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
      out[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5) * factor;
      out[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7) * factor;
      out[2] = __builtin_shufflevector(d, e, 0, 1, 4, 5) * factor;
      out[3] = __builtin_shufflevector(d, e, 2, 3, 6, 7) * factor;
      for (int i = 0; i < 4; ++i) std::memcpy(to + (c + i) * ld_to + r, &out[i], sizeof(Four));
    }
    for (; c < columns; ++c) {
      for (int i = 0; i < 4; ++i) to[c * ld_to + r + i] = factor * x[i * ld_from + c];
    }
  }
  for (; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * ld_to + r] = factor * from[r * ld_from + c];
  }
}

}  // namespace tapegrad
