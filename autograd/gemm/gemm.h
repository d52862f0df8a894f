#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "tapegrad/autograd/base/memory.h"
#include "tapegrad/autograd/gemm/bf16.h"
#include "tapegrad/autograd/gemm/precision.h"

namespace tapegrad {

// C = op(A)·op(B) + beta·C, row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n); `ta` and `tb`
// say that A or B is stored transposed; ld* is the distance between stored rows. With beta = 0 the
// old contents of C are ignored, NaN included; k = 0 gives zeros. T is float or double; or bf16,
// with C of floats, alpha 1 and beta 0 or 1, if has_bf16_instructions().
//
// Threads share out large products, since OpenBLAS's own threads round differently for each number
// of them: rows of C, in pieces that depend on the number of threads, if the BLAS gives a row the
// same bits in any piece, which is tried once for each T; otherwise, for wide products and for
// bf16, pieces that depend on m, n and k alone. So the result does not depend on the number of
// threads. A thread that calls gemm has its OpenMP setting of threads taken down to one, which is
// what OpenBLAS goes by.
template <class T>
struct Gemm {
  using Sum = std::conditional_t<std::is_same_v<T, bf16>, float, T>;
  bool ta = false, tb = false;
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  Sum* c = nullptr;
  std::int64_t ldc = 0;
  Sum alpha = 1, beta = 0;
};
// Products of less than this m·n·k are not cut.
inline constexpr std::int64_t kUncutWork = 5'000'000;
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);
void gemm(const Gemm<bf16>& g);

// A matrix as an operand of several products: as it lies, or, of floats, rounded to bf16, once.
// Where the processor has no bf16 instructions, the rounded numbers are kept as floats, whose
// products are exact: only the order of the sums differs, and denormals, which bf16 instructions
// take for 0. Error for doubles in bf16.
template <class T>
class Operand {
 public:
  Operand(const T* data, std::int64_t rows, std::int64_t columns, std::int64_t ld,
          Precision precision);

 private:
  template <class U>
  friend void gemm(const Gemm<U>& g, const Operand<U>& a, const Operand<U>& b);

  const T* data_;
  std::int64_t rows_, columns_, ld_;
  std::optional<Scratch> rounded_;  // one row behind the other
};
// The product of a and b, in place of g's, which are ignored, for T of float and double. Errors:
// the sizes are not those of g, the precisions differ; in bf16, alpha is not 1, or beta not 0 or 1.
template <class T>
void gemm(const Gemm<T>& g, const Operand<T>& a, const Operand<T>& b);
// The product of g's own.
template <class T>
void gemm(const Gemm<T>& g, Precision precision);

// Multiplications and additions of all products of this process so far, for profiles.
double gemm_flops();

// Whether products of bf16 have instructions: the processor's, and oneDNN to use them.
bool has_bf16_instructions();
// For people: "oneDNN 2.6.3", or why there are none.
std::string bf16_description();

// For people: "OpenBLAS 0.3.21, Zen kernels, OpenMP". Throws Error if the library that was loaded
// is not the OpenMP build: its threads would fight ours.
std::string blas_description();

}  // namespace tapegrad
