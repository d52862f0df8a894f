// Products of f32 and f64 by loops that any compiler turns into vector code: for targets that no
// library is made for, such as WebAssembly (scripts/web.sh). One thread.

#include <algorithm>
#include <vector>

#include "tapegrad/autograd/gemm/internal/library.h"

namespace tapegrad {
namespace {

// A block of C whose sums stay in registers: 8 of the 16 that x86's vectors of 16 bytes have.
constexpr int kRows = 4, kColumns = 8;

template <class T>
void store(const Gemm<T>& g, std::int64_t i, std::int64_t j, T sum) {
  T& c = g.c[i * g.ldc + j];
  c = g.beta == 0 ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

// Columns [begin, begin + count) of op(B), and zeros up to kColumns: (k, kColumns).
template <class T>
void pack(const Gemm<T>& g, std::int64_t begin, std::int64_t count, std::vector<T>& panel) {
  const std::int64_t step = g.tb ? 1 : g.ldb, column = g.tb ? g.ldb : 1;
  for (std::int64_t j = 0; j < count; ++j) {
    const T* b = g.b + (begin + j) * column;
    for (std::int64_t p = 0; p < g.k; ++p) panel[p * kColumns + j] = b[p * step];
  }
  for (std::int64_t j = count; j < kColumns; ++j) {
    for (std::int64_t p = 0; p < g.k; ++p) panel[p * kColumns + j] = 0;
  }
}

// `count` columns of kCount rows of C, from (i, j) on.
template <int kCount, class T>
void multiply_block(const Gemm<T>& g, std::int64_t i, std::int64_t j, std::int64_t count,
                    const T* b) {
  const std::int64_t step = g.ta ? g.lda : 1, row = g.ta ? 1 : g.lda;
  const T* a = g.a + i * row;
  T sums[kCount][kColumns] = {};
  for (std::int64_t p = 0; p < g.k; ++p, a += step, b += kColumns) {
    for (int r = 0; r < kCount; ++r) {
      for (int c = 0; c < kColumns; ++c) sums[r][c] += a[r * row] * b[c];
    }
  }
  for (int r = 0; r < kCount; ++r) {
    for (std::int64_t c = 0; c < count; ++c) store(g, i + r, j + c, sums[r][c]);
  }
}

template <class T>
void multiply(const Gemm<T>& g) {
  std::vector<T> panel(static_cast<std::size_t>(g.k * kColumns));
  for (std::int64_t j = 0; j < g.n; j += kColumns) {
    const std::int64_t count = std::min<std::int64_t>(kColumns, g.n - j);
    pack(g, j, count, panel);
    std::int64_t i = 0;
    for (; i + kRows <= g.m; i += kRows) multiply_block<kRows>(g, i, j, count, panel.data());
    for (; i < g.m; ++i) multiply_block<1>(g, i, j, count, panel.data());
  }
}

// The sum of products of two rows, in partial sums that are vectors.
template <class T>
T dot(const T* a, const T* b, std::int64_t k) {
  constexpr int kSums = 16;
  T sums[kSums] = {}, rest = 0;
  std::int64_t p = 0;
  for (; p + kSums <= k; p += kSums) {
    for (int l = 0; l < kSums; ++l) sums[l] += a[p + l] * b[p + l];
  }
  for (; p < k; ++p) rest += a[p] * b[p];
  for (int half = kSums / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0] + rest;
}

// A text's next token multiplies one row: B is read once, and not packed.
template <class T>
void multiply_row(const Gemm<T>& g) {
  if (!g.tb) return multiply(g);
  std::vector<T> a(static_cast<std::size_t>(g.k));
  for (std::int64_t p = 0; p < g.k; ++p) a[p] = g.a[g.ta ? p * g.lda : p];
  for (std::int64_t j = 0; j < g.n; ++j) store(g, 0, j, dot(a.data(), g.b + j * g.ldb, g.k));
}

}  // namespace

template <class T>
const Multiplier<T>* plain_products() {
  static constexpr Multiplier<T> multiplier{.multiply = multiply<T>,
                                            .multiply_row = multiply_row<T>};
  return &multiplier;
}
template const Multiplier<float>* plain_products();
template const Multiplier<double>* plain_products();

#ifdef TAPEGRAD_WITHOUT_OPENBLAS  // these stand in its place
template <>
const Multiplier<float>* openblas() {
  return plain_products<float>();
}
template <>
const Multiplier<double>* openblas() {
  return plain_products<double>();
}
template <>
const Multiplier<bf16>* openblas() {
  return nullptr;
}
std::string describe_openblas(bool) { return "plain loops"; }
void with_library_threads(int, const std::function<void()>& work) { work(); }
int library_threads() { return 1; }
#endif

}  // namespace tapegrad
