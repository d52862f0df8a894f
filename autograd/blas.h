#pragma once

#include <cstdint>
#include <string>

namespace tapegrad {

// C = op(A)·op(B) + beta·C, row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n); `ta` and `tb`
// say that A or B is stored transposed; ld* is the distance between stored rows. With beta = 0 the
// old contents of C are ignored, NaN included; k = 0 gives zeros. T is float or double.
//
// Threads share out large products, since OpenBLAS's own threads round differently for each number
// of them: rows of C, in pieces that depend on the number of threads, if the BLAS gives a row the
// same bits in any piece, which is tried once for each T; otherwise, and for wide products, pieces
// that depend on m, n and k alone. So the result does not depend on the number of threads. A thread
// that calls gemm has its OpenMP setting of threads taken down to one, which is what OpenBLAS goes
// by.
template <class T>
struct Gemm {
  bool ta = false, tb = false;
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
  T alpha = 1, beta = 0;
};
// Products of less than this m·n·k are not cut.
inline constexpr std::int64_t kUncutWork = 5'000'000;
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);

// Multiplications and additions of all products of this process so far, for profiles.
double gemm_flops();

// For people: "OpenBLAS 0.3.21, Zen kernels, OpenMP". Throws Error if the library that was loaded
// is not the OpenMP build: its threads would fight ours.
std::string blas_description();

}  // namespace tapegrad
