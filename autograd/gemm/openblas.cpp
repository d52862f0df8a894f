// Products of f32 and f64 by OpenBLAS.

#include <algorithm>
#include <limits>
#include <mutex>
#include <sstream>

#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/autograd/gemm/internal/openblas_library.h"
#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

int blas_int(std::int64_t n) {
  check(n <= std::numeric_limits<int>::max(), "[gemm] a size of {} is more than BLAS can count", n);
  return static_cast<int>(n);
}

// BLAS requires a leading dimension of at least 1, even of empty matrices.
int leading(std::int64_t ld) { return blas_int(ld < 1 ? 1 : ld); }

// Prepares C and returns the beta that is left to apply. OpenBLAS clears C by a loop of its own,
// which is slower than memset: 3 % of a small model's step.
template <class T>
T cleared(const Gemm<T>& g) {
  if (g.beta != 0) return g.beta;
  for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, T{0});
  return 1;
}

// OpenBLAS changes variables that all threads share while it does this: hence the lock.
void set_threads(int n) {
  static std::mutex mutex;
  const OpenBlas& blas = loaded_openblas();
  const std::lock_guard lock(mutex);
  blas.set_num_threads(n);
}

// OpenMP keeps this setting per thread, so each thread makes it once.
void use_one_thread() {
  thread_local const bool told = [] {
    set_threads(1);
    return true;
  }();
  static_cast<void>(told);
}

// The library's own threads, for calls of this thread.
thread_local int own_threads = 1;

template <class T>
void multiply(const Gemm<T>& g) {
  use_one_thread();
  const T beta = cleared(g);
  const auto ta = g.ta ? CblasTrans : CblasNoTrans;
  const auto tb = g.tb ? CblasTrans : CblasNoTrans;
  const int m = blas_int(g.m), n = blas_int(g.n), k = blas_int(g.k);
  const int lda = leading(g.lda), ldb = leading(g.ldb), ldc = leading(g.ldc);
  if constexpr (std::is_same_v<T, float>) {
    loaded_openblas().sgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c,
                            ldc);
  } else {
    loaded_openblas().dgemm(CblasRowMajor, ta, tb, m, n, k, g.alpha, g.a, lda, g.b, ldb, beta, g.c,
                            ldc);
  }
}

// A product of one row is a matrix times a vector. OpenBLAS's gemm packs all of B first, and takes
// 7 to 20 times as long as its gemv.
template <class T>
void multiply_row(const Gemm<T>& g) {
  use_one_thread();
  const T beta = cleared(g);
  const auto order = g.tb ? CblasNoTrans : CblasTrans;
  const int rows = blas_int(g.tb ? g.n : g.k), columns = blas_int(g.tb ? g.k : g.n);
  const int ldb = leading(g.ldb), step = g.ta ? leading(g.lda) : 1;
  if constexpr (std::is_same_v<T, float>) {
    loaded_openblas().sgemv(CblasRowMajor, order, rows, columns, g.alpha, g.b, ldb, g.a, step, beta,
                            g.c, 1);
  } else {
    loaded_openblas().dgemv(CblasRowMajor, order, rows, columns, g.alpha, g.b, ldb, g.a, step, beta,
                            g.c, 1);
  }
}

}  // namespace

template <class T>
const Multiplier<T>* openblas() {
  if constexpr (std::is_same_v<T, bf16>) {
    return nullptr;
  } else {
    static constexpr Multiplier<T> multiplier{
        .multiply = multiply<T>, .pieces = Pieces::rows, .multiply_row = multiply_row<T>};
    return &multiplier;
  }
}
template const Multiplier<float>* openblas();
template const Multiplier<double>* openblas();
template const Multiplier<bf16>* openblas();

std::string describe_openblas(bool reason) {
  const OpenBlas& blas = loaded_openblas();
  std::istringstream config(blas.get_config());  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …"
  std::string name, version;
  config >> name >> version;
  return fmt::format("{} {}, {} kernels{}", name, version, blas.core, reason ? blas.reason : "");
}

void with_library_threads(int threads, const std::function<void()>& work) {
  use_one_thread();
  struct OwnThreads {
    explicit OwnThreads(int n) { set_threads(own_threads = n); }
    ~OwnThreads() { set_threads(own_threads = 1); }
  } const own(threads);
  work();
}

int library_threads() { return own_threads; }

}  // namespace tapegrad
