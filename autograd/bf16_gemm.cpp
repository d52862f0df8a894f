// Products in bf16 of matrices that are f32: see blas.h.

#include <algorithm>

#include "autograd/blas.h"
#include "autograd/check.h"
#include "autograd/memory.h"
#include "autograd/onednn.h"
#include "autograd/parallel.h"

namespace tapegrad {
namespace {

// A matrix rounded to bf16, one row behind the other: as such, or as floats of that value.
template <class T>
class Rounded {
 public:
  Rounded(const float* data, std::int64_t rows, std::int64_t columns, std::int64_t ld)
      : bytes_(static_cast<std::size_t>(rows * columns) * sizeof(T)),
        data_(static_cast<T*>(allocate(bytes_))) {
    const std::int64_t grain = 1 + kRoundGrain / std::max<std::int64_t>(1, columns);
    parallel_for(rows, grain, [=, to = data_](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const bf16 x = to_bf16(data[i * ld + j]);
          if constexpr (std::is_same_v<T, bf16>) {
            to[i * columns + j] = x;
          } else {
            to[i * columns + j] = to_float(x);
          }
        }
      }
    });
  }
  ~Rounded() { deallocate(data_, bytes_); }
  Rounded(const Rounded&) = delete;
  Rounded& operator=(const Rounded&) = delete;
  const T* data() const { return data_; }

 private:
  static constexpr std::int64_t kRoundGrain = 16384;  // elements that are worth waking a thread for

  std::size_t bytes_;
  T* data_;
};

template <class T>
void gemm_rounded(const Gemm<float>& g) {
  const std::int64_t a_columns = g.ta ? g.m : g.k, b_columns = g.tb ? g.k : g.n;
  const Rounded<T> a(g.a, g.ta ? g.k : g.m, a_columns, g.lda);
  const Rounded<T> b(g.b, g.tb ? g.n : g.k, b_columns, g.ldb);
  gemm(Gemm<T>{.ta = g.ta,
               .tb = g.tb,
               .m = g.m,
               .n = g.n,
               .k = g.k,
               .a = a.data(),
               .lda = a_columns,
               .b = b.data(),
               .ldb = b_columns,
               .c = g.c,
               .ldc = g.ldc,
               .alpha = g.alpha,
               .beta = g.beta});
}

}  // namespace

void gemm(const Gemm<float>& g, Precision precision) {
  if (precision == Precision::full) return gemm(g);
  check(g.alpha == 1 && (g.beta == 0 || g.beta == 1),
        "[gemm] in bf16, alpha must be 1 and beta 0 or 1, not {} and {}", g.alpha, g.beta);
  has_bf16_instructions() ? gemm_rounded<bf16>(g) : gemm_rounded<float>(g);
}

void gemm(const Gemm<double>& g, Precision precision) {
  check(precision == Precision::full, "products of f64 cannot be rounded to bf16");
  gemm(g);
}

bool has_bf16_instructions() { return onednn_has_bf16(); }
std::string bf16_description() { return onednn_description(); }

}  // namespace tapegrad
