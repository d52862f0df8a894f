// Products in bf16 of matrices that are f32: what is rounded, and how it is kept.

#include <algorithm>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// Rounds the rows of `from` into `to`, without gaps between rows: as bf16, or as floats of the same
// value.
template <class T>
void round_rows(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                T* to) {
  constexpr std::int64_t kGrain = 16384;  // elements that make it worthwhile to wake a thread
  const std::int64_t grain = 1 + kGrain / std::max<std::int64_t>(1, columns);
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const bf16 x = to_bf16(from[i * ld + j]);
        if constexpr (std::is_same_v<T, bf16>) {
          to[i * columns + j] = x;
        } else {
          to[i * columns + j] = to_float(x);
        }
      }
    }
  });
}

template <class T, class U>
Gemm<T> with_operands(const Gemm<U>& g, const T* a, std::int64_t lda, const T* b,
                      std::int64_t ldb) {
  return {.ta = g.ta,
          .tb = g.tb,
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .a = a,
          .lda = lda,
          .b = b,
          .ldb = ldb,
          .c = g.c,
          .ldc = g.ldc,
          .alpha = g.alpha,
          .beta = g.beta,
          .batch_invariant = g.batch_invariant};
}

}  // namespace

template <class T>
Operand<T>::Operand(const T* data, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                    Precision precision)
    : data_(data), rows_(rows), columns_(columns), ld_(ld) {
  if (precision == Precision::full) return;
  check(precision == Precision::bf16, "products in int8 are those of linear layers alone");
  if constexpr (std::is_same_v<T, float>) {
    const bool narrow = has_bf16_instructions();
    const std::size_t size = narrow ? sizeof(bf16) : sizeof(float);
    rounded_.emplace(static_cast<std::size_t>(rows * columns) * size);
    ld_ = columns;
    void* to = rounded_->data();
    narrow ? round_rows(data, rows, columns, ld, static_cast<bf16*>(to))
           : round_rows(data, rows, columns, ld, static_cast<float*>(to));
  } else {
    fail("products of f64 cannot be rounded to bf16");
  }
}

template <class T>
void gemm(const Gemm<T>& g, const Operand<T>& a, const Operand<T>& b) {
  check(a.rows_ == (g.ta ? g.k : g.m) && a.columns_ == (g.ta ? g.m : g.k) &&
            b.rows_ == (g.tb ? g.n : g.k) && b.columns_ == (g.tb ? g.k : g.n),
        "[gemm] operands of {}×{} and {}×{} do not make a product of {}×{}×{}", a.rows_, a.columns_,
        b.rows_, b.columns_, g.m, g.n, g.k);
  check(a.rounded_.has_value() == b.rounded_.has_value(),
        "[gemm] one operand is rounded to bf16, and the other is not");
  if (!a.rounded_) return gemm(with_operands(g, a.data_, a.ld_, b.data_, b.ld_));
  check(g.alpha == 1 && (g.beta == 0 || g.beta == 1),
        "[gemm] in bf16, alpha must be 1 and beta 0 or 1, not {} and {}", g.alpha, g.beta);
  if constexpr (std::is_same_v<T, float>) {
    const auto multiply = [&](auto number) {
      using Rounded = decltype(number);
      gemm(with_operands(g, static_cast<const Rounded*>(a.rounded_->data()), a.ld_,
                         static_cast<const Rounded*>(b.rounded_->data()), b.ld_));
    };
    has_bf16_instructions() ? multiply(bf16{}) : multiply(float{});
  }
}

template <class T>
void gemm(const Gemm<T>& g, Precision precision) {
  const Operand<T> a(g.a, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda, precision);
  const Operand<T> b(g.b, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb, precision);
  gemm(g, a, b);
}

template class Operand<float>;
template class Operand<double>;
template void gemm(const Gemm<float>& g, const Operand<float>& a, const Operand<float>& b);
template void gemm(const Gemm<double>& g, const Operand<double>& a, const Operand<double>& b);
template void gemm(const Gemm<float>& g, Precision precision);
template void gemm(const Gemm<double>& g, Precision precision);

}  // namespace tapegrad
