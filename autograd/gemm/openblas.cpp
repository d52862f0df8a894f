#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>
#include <sstream>
#include <vector>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/gemm/onednn.h"

namespace tapegrad {
namespace {

std::atomic<std::int64_t> multiplications{0};

int blas_int(std::int64_t n) {
  check(n <= std::numeric_limits<int>::max(), "[gemm] a size of {} is more than BLAS can count", n);
  return static_cast<int>(n);
}

// BLAS requires a leading dimension of at least 1, even of matrices that are empty.
int leading(std::int64_t ld) { return blas_int(ld < 1 ? 1 : ld); }

// OpenBLAS takes its number of threads from OpenMP's setting for the calling thread, each time
// anew. So it is told once in every thread that its threads are not wanted.
void keep_blas_single_threaded() {
  static std::mutex mutex;
  thread_local const bool told = [] {
    const std::lock_guard lock(mutex);
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(told);
}

// Little ones are as quick either way, and keep the roundings of gemm, which are PyTorch's.
template <class T>
bool is_large_row(const Gemm<T>& g) {
  return !std::is_same_v<T, bf16> && g.m == 1 && g.n * g.k >= 4096;
}

// A product with one row, C = alpha·op(A)·op(B) + beta·C, which is one of a matrix with a vector.
// OpenBLAS's gemm packs all of B first, and takes 7 to 20 times as long.
template <class T>
void gemm_row(const Gemm<T>& g, T beta) {
  const auto order = g.tb ? CblasNoTrans : CblasTrans;
  const int rows = blas_int(g.tb ? g.n : g.k), columns = blas_int(g.tb ? g.k : g.n);
  const int ldb = leading(g.ldb), step = g.ta ? leading(g.lda) : 1;
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemv(CblasRowMajor, order, rows, columns, g.alpha, g.b, ldb, g.a, step, beta, g.c, 1);
  } else {
    cblas_dgemv(CblasRowMajor, order, rows, columns, g.alpha, g.b, ldb, g.a, step, beta, g.c, 1);
  }
}

template <class T>
void gemm_matrix(const Gemm<T>& g, T beta) {
  const auto ta = g.ta ? CblasTrans : CblasNoTrans;
  const auto tb = g.tb ? CblasTrans : CblasNoTrans;
  const int m = blas_int(g.m), n = blas_int(g.n), k = blas_int(g.k);
  const int lda = leading(g.lda), ldb = leading(g.ldb), ldc = leading(g.ldc);
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c, ldc);
  } else {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c, ldc);
  }
}

// One piece of a product, or all of it, on the calling thread. `as_row`: with gemm_row, which is
// for the whole product to say: its roundings are other ones.
template <class T>
void run(const Gemm<T>& g, bool as_row) {
  keep_blas_single_threaded();
  // OpenBLAS clears C by a loop of its own, which is slower than memset: 3 % of a small model's
  // step.
  T beta = g.beta;
  if (beta == 0) {
    for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, T{0});
    beta = 1;
  }
  as_row ? gemm_row(g, beta) : gemm_matrix(g, beta);
}

void run(const Gemm<bf16>& g, bool) {
  keep_blas_single_threaded();  // which oneDNN's threads, OpenMP's as well, go by
  onednn_gemm(g);
}

// Of a product with one row: elements of B that are worth waking a thread for, few enough for two
// threads to share GPT-2's smallest matrices.
constexpr std::int64_t kRowTile = 300'000;
// Of other products: multiplications that are worth waking a thread for, and of any piece. OpenBLAS
// has other kernels, with other roundings, for products of up to a million.
constexpr std::int64_t kWorthThread = kUncutWork / 2, kLeastPiece = 1'200'000;
// Pieces begin at multiples of this: the blocks of all of OpenBLAS's kernels divide it.
constexpr std::int64_t kBlock = 48;

std::int64_t round_to_block(std::int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

template <class T>
Gemm<T> rows_of(const Gemm<T>& g, std::int64_t begin, std::int64_t end) {
  Gemm<T> part = g;
  part.m = end - begin;
  part.a += g.ta ? begin : begin * g.lda;
  part.c += begin * g.ldc;
  return part;
}

template <class T>
Gemm<T> columns_of(const Gemm<T>& g, std::int64_t begin, std::int64_t end) {
  Gemm<T> part = g;
  part.n = end - begin;
  part.b += g.tb ? begin * g.ldb : begin;
  part.c += begin;
  return part;
}

// Whether the rows of a product have the same bits when they are computed in several calls.
template <class T>
bool rows_come_out_alike() {
  constexpr std::int64_t m = 3 * kBlock + 1, n = 71, k = 530;
  std::vector<T> a(m * k), b(n * k), whole(m * n), pieces(m * n);
  const auto number = [](std::size_t i) {
    return static_cast<T>((i * 7919) % 1009) / 1009 - T{0.5};
  };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = number(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = number(i + 500);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Gemm<T> g{.ta = ta,
                .tb = tb,
                .m = m,
                .n = n,
                .k = k,
                .a = a.data(),
                .lda = ta ? m : k,
                .b = b.data(),
                .ldb = tb ? k : n,
                .c = whole.data(),
                .ldc = n};
      run(g, false);
      g.c = pieces.data();
      for (const std::int64_t begin : {std::int64_t{0}, kBlock, 2 * kBlock}) {
        run(rows_of(g, begin, begin == 2 * kBlock ? m : begin + kBlock), false);
      }
      if (whole != pieces) return false;
    }
  }
  return true;
}

using Bounds = std::vector<std::int64_t>;

// [0, length) in parts of about one size.
Bounds even_bounds(std::int64_t length, std::int64_t parts) {
  const std::int64_t step = round_to_block((length + parts - 1) / parts);
  Bounds bounds;
  for (std::int64_t i = 0; i < length; i += step) bounds.push_back(i);
  bounds.push_back(length);
  return bounds;
}

// For each thread its share: three quarters, and the rest, if there is much, for who is ready
// first. No part is shorter than `least`.
Bounds shares(std::int64_t length, std::int64_t threads, std::int64_t least) {
  constexpr std::int64_t kMuch = 8 * kBlock;
  Bounds bounds{0};
  const auto add = [&](std::int64_t bound) {
    if (bound - bounds.back() >= least && length - bound >= least) bounds.push_back(bound);
  };
  for (std::int64_t i = 0; i < threads && threads > 1; ++i) {
    const std::int64_t begin = length * i / threads, end = length * (i + 1) / threads;
    add(round_to_block(begin));
    if (end - begin >= kMuch) add(round_to_block(begin + (end - begin) * 3 / 4));
  }
  bounds.push_back(length);
  return bounds;
}

// How a product is cut, into rows or into columns.
struct Cut {
  bool rows;
  Bounds bounds;
};

template <class T>
Cut cut_of(const Gemm<T>& g, double work) {
  constexpr std::int64_t kMostParts = 16;
  const auto parts = static_cast<std::int64_t>(
      std::min<double>(kMaxThreads, work / static_cast<double>(kWorthThread)));
  // Every piece packs the operand that is not cut. So a wide product is cut into columns, whose
  // roundings do depend on the cut: it must be the same for any number of threads.
  if (g.n > 8 * g.m) return {false, even_bounds(g.n, std::min(parts, kMostParts))};
  static const bool rows_are_alike = rows_come_out_alike<T>();
  if (!rows_are_alike) return {true, even_bounds(g.m, std::min(parts, kMostParts))};
  const std::int64_t least = std::max(kBlock, 1 + kLeastPiece / (g.n * g.k));
  return {true, shares(g.m, std::min<std::int64_t>(parts, num_threads()), least)};
}

// oneDNN goes by the sizes of a call in what it adds up first, so that these pieces may not depend
// on the threads. Each packs the operand that is not cut: they are large, and few.
Cut cut_of(const Gemm<bf16>& g, double) {
  constexpr std::int64_t kLeast = 384, kMostParts = 16;
  const bool rows = g.m > g.n;
  const std::int64_t length = rows ? g.m : g.n;
  const auto parts = std::bit_floor(static_cast<std::uint64_t>(std::max(kLeast, length) / kLeast));
  return {rows, even_bounds(length, std::min(static_cast<std::int64_t>(parts), kMostParts))};
}

template <class T>
void gemm_any(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  multiplications.fetch_add(g.m * g.n * g.k, std::memory_order_relaxed);
  const bool as_row = is_large_row(g);
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if (!as_row && work < static_cast<double>(kUncutWork)) return run(g, false);
  const Cut cut = as_row ? Cut{false, even_bounds(g.n, 1 + g.n * g.k / kRowTile)} : cut_of(g, work);
  parallel_for(static_cast<std::int64_t>(cut.bounds.size()) - 1, 1, [&](auto begin, auto end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::int64_t from = cut.bounds[i], to = cut.bounds[i + 1];
      run(cut.rows ? rows_of(g, from, to) : columns_of(g, from, to), as_row);
    }
  });
}

}  // namespace

void gemm(const Gemm<float>& g) { gemm_any(g); }
void gemm(const Gemm<double>& g) { gemm_any(g); }
void gemm(const Gemm<bf16>& g) { gemm_any(g); }

double gemm_flops() {
  return 2.0 * static_cast<double>(multiplications.load(std::memory_order_relaxed));
}

std::string blas_description() {
  check(openblas_get_parallel() == OPENBLAS_OPENMP,
        "the OpenBLAS that was loaded is not its OpenMP build: install libopenblas-openmp-dev, "
        "rebuild, and keep LD_LIBRARY_PATH and LD_PRELOAD from naming another one");
  std::istringstream config(openblas_get_config());  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …"
  std::string name, version;
  config >> name >> version;
  return fmt::format("{} {}, {} kernels, OpenMP", name, version, openblas_get_corename());
}

}  // namespace tapegrad
