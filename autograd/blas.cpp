#include "autograd/blas.h"

#include <cblas.h>

#include <limits>
#include <sstream>

#include "autograd/check.h"

namespace tapegrad {
namespace {

int blas_int(std::int64_t n) {
  check(n <= std::numeric_limits<int>::max(), "[gemm] a size of {} is more than BLAS can count", n);
  return static_cast<int>(n);
}

// BLAS requires a leading dimension of at least 1, even of matrices that are empty.
int leading(std::int64_t ld) { return blas_int(ld < 1 ? 1 : ld); }

template <class T>
void gemm_any(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  const auto ta = g.ta ? CblasTrans : CblasNoTrans;
  const auto tb = g.tb ? CblasTrans : CblasNoTrans;
  const int m = blas_int(g.m), n = blas_int(g.n), k = blas_int(g.k);
  const int lda = leading(g.lda), ldb = leading(g.ldb), ldc = leading(g.ldc);
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, g.beta, g.c, ldc);
  } else {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, g.beta, g.c, ldc);
  }
}

}  // namespace

void gemm(const Gemm<float>& g) { gemm_any(g); }
void gemm(const Gemm<double>& g) { gemm_any(g); }

void set_blas_threads(int n) { openblas_set_num_threads(n); }

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
