#include "autograd/blas.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <sstream>

#include "autograd/check.h"
#include "autograd/parallel.h"

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
  return g.m == 1 && g.n * g.k >= 4096;
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

// One product, on the calling thread.
template <class T>
void gemm_tile(const Gemm<T>& g) {
  keep_blas_single_threaded();
  const auto ta = g.ta ? CblasTrans : CblasNoTrans;
  const auto tb = g.tb ? CblasTrans : CblasNoTrans;
  const int m = blas_int(g.m), n = blas_int(g.n), k = blas_int(g.k);
  const int lda = leading(g.lda), ldb = leading(g.ldb), ldc = leading(g.ldc);
  // OpenBLAS clears C by a loop of its own, which is slower than memset: 3 % of a small model's
  // step.
  T beta = g.beta;
  if (beta == 0) {
    for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, T{0});
    beta = 1;
  }
  if (is_large_row(g)) return gemm_row(g, beta);
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c, ldc);
  } else {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c, ldc);
  }
}

// Elements of B that one thread takes of a product with one row: enough to be worth waking it, few
// enough for two threads to share GPT-2's smallest matrices.
constexpr std::int64_t kRowTile = 300'000;

struct Tiling {
  std::int64_t rows, columns;  // of one tile
};

// Tiles are as large as a fair share for several threads allows, since each packs its operands
// anew. They are cut at multiples of the widest kernels' blocks.
template <class T>
Tiling tiling_of(const Gemm<T>& g) {
  constexpr std::int64_t kBlock = 48;
  if (is_large_row(g)) {
    const std::int64_t fair = kRowTile / std::max<std::int64_t>(1, g.k);
    return {1, std::max<std::int64_t>(1, fair / kBlock) * kBlock};
  }
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  int halvings = 0;
  for (auto most = static_cast<double>(kUntiledWork); work >= most && halvings < 4; most *= 10) {
    ++halvings;
  }
  Tiling tile{g.m, g.n};
  for (int i = 0; i < halvings; ++i) {
    std::int64_t& longer = tile.rows >= tile.columns ? tile.rows : tile.columns;
    longer = ((longer + 1) / 2 + kBlock - 1) / kBlock * kBlock;
  }
  return tile;
}

template <class T>
void gemm_any(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  multiplications.fetch_add(g.m * g.n * g.k, std::memory_order_relaxed);
  const Tiling tile = tiling_of(g);
  const std::int64_t down = (g.m + tile.rows - 1) / tile.rows;
  const std::int64_t across = (g.n + tile.columns - 1) / tile.columns;
  if (down * across == 1) return gemm_tile(g);
  parallel_for(down * across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t i = t / across * tile.rows, j = t % across * tile.columns;
      Gemm<T> part = g;
      part.m = std::min(tile.rows, g.m - i);
      part.n = std::min(tile.columns, g.n - j);
      part.a += g.ta ? i : i * g.lda;
      part.b += g.tb ? j * g.ldb : j;
      part.c += i * g.ldc + j;
      gemm_tile(part);
    }
  });
}

}  // namespace

void gemm(const Gemm<float>& g) { gemm_any(g); }
void gemm(const Gemm<double>& g) { gemm_any(g); }

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
