#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tapegrad/autograd/gemm/precision.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

// C = alpha·op(A)·op(B) + beta·C, row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n). `ta`
// and `tb` say that A or B is stored transposed; lda, ldb and ldc are the distances between stored
// rows. With beta = 0 the old contents of C are ignored, NaN included; k = 0 gives zeros. T is
// float, double or bf16. A product of bf16 has a C of floats, alpha 1 and beta 0 or 1, and needs
// has_bf16_instructions(). Libraries multiply std::int8_t, too, for int8_products.h: C has
// whole numbers, which are exact, alpha is 1, beta 0, and A or B is not transposed.
//
// Our threads share out large products (partition.cpp). The result does not depend on the number of
// threads. Which library multiplies is decided in choose.cpp; set_gemm_library() overrules it. A
// thread that calls gemm() has its OpenMP setting lowered to one thread, since the libraries' own
// threads round differently for each number of them. The first product loads OpenBLAS, which may
// set and unset the variable OPENBLAS_CORETYPE: a program with threads that read the environment
// calls gemm_description() before it starts them.
template <class T>
struct Gemm {
  using Sum =
      std::conditional_t<std::is_same_v<T, bf16>, float,
                         std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, T>>;
  bool ta = false, tb = false;
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  Sum* c = nullptr;
  std::int64_t ldc = 0;
  Sum alpha = 1, beta = 0;
  // Gives each row of C the bits that it has in a product of one row, whatever m is. For up to
  // some sixteen rows this takes about as long as one product; for more rows, it takes longer.
  bool batch_invariant = false;
};
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);
void gemm(const Gemm<bf16>& g);

// The same for a C that is symmetric by what it is: X·Xᵀ, or a product of two polynomials of one
// symmetric matrix. Computes the lower triangle in blocks of rows, and copies it into the upper
// one: (1 + 64/n)/2 of the work. Error unless m = n, beta = 0, and without batch_invariant.
void gemm_symmetric(const Gemm<float>& g);
void gemm_symmetric(const Gemm<double>& g);

// A product whose m·n·k is less than this runs on the calling thread alone.
inline constexpr std::int64_t kUncutWork = 5'000'000;

// A matrix that is an operand of several products. With Precision::full it refers to `data`. With
// Precision::bf16 it holds a copy of `data`, rounded to bf16 once. Where the processor has no bf16
// instructions, the copy holds the rounded numbers as floats. The products of such floats are
// exact, so the results differ from those of bf16 instructions in two ways only: sums are added in
// another order, and bf16 instructions take denormals for 0. Errors: doubles in bf16; int8, which
// is for linear layers and heads (int8_rows.h, int8_head.h).
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
  std::optional<Scratch> rounded_;  // rows without gaps between them
};
// The product of operands a and b; the operands of g are ignored. T is float or double. Errors: the
// sizes are not those of g; the precisions differ; in bf16, alpha is not 1, or beta is neither 0
// nor 1.
template <class T>
void gemm(const Gemm<T>& g, const Operand<T>& a, const Operand<T>& b);
// The product of g's own operands, rounded first if `precision` says so.
template <class T>
void gemm(const Gemm<T>& g, Precision precision);

// Floating-point operations of all products of this process so far, for profiles: a multiplication
// and an addition count as two.
double gemm_flops();

// The shape of a product that gemm() was asked for.
struct GemmShape {
  bool ta = false, tb = false;
  std::int64_t m = 0, n = 0, k = 0;
  Precision precision = Precision::full;
  double flops() const;
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// Counts the products of floats and of bf16, by shape, of all threads while it lives; one at a
// time.
class GemmLog {
 public:
  GemmLog();
  ~GemmLog();
  GemmLog(const GemmLog&) = delete;
  GemmLog& operator=(const GemmLog&) = delete;
  const std::map<GemmShape, std::int64_t>& counts() const { return counts_; }

 private:
  friend void log_product(const GemmShape& shape);
  std::map<GemmShape, std::int64_t> counts_;
};

// Which library multiplies floats. With `automatic`, it depends on the processor's instructions and
// on the shape and transposition of a product, by a table that was measured (choose.cpp). Products
// of doubles are OpenBLAS's and those of bf16 are oneDNN's.
enum class GemmLibrary : std::uint8_t { automatic, openblas, onednn };
inline constexpr std::string_view kGemmLibraryNames[] = {"auto", "openblas", "onednn"};
inline std::span<const std::string_view> names_of(GemmLibrary) { return kGemmLibraryNames; }
// For the whole process. Error if oneDNN is asked for, and this build has none, or it multiplies
// wrongly here.
void set_gemm_library(GemmLibrary library);

// True if products of bf16 run on bf16 instructions here. That takes a processor that has them, and
// a library that uses them.
bool has_bf16_instructions();

// The libraries that multiply in this process, for the record: versions and kernels. Where they
// are the same, so are the bits of a run.
std::string gemm_identity();

// For people: the libraries that multiply at this precision, "OpenBLAS 0.3.21, Zen kernels" or
// "oneDNN 2.6.3 and OpenBLAS 0.3.21, Cooperlake kernels". For bf16 without instructions: the reason
// why there are none. Errors: the library cannot be loaded; it would give wrong results.
std::string gemm_description(Precision precision = Precision::full);

// Floating-point operations per second that our threads reach in a loop of nothing but fused
// multiply-adds of floats: the most that any product can have here. It takes some milliseconds. 0
// if the processor has no AVX2.
double fma_rate();

}  // namespace tapegrad
