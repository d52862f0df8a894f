#include <limits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A product of one row whose stored rows lie further apart than they are long.
struct RowProduct {
  bool ta, tb;
  std::int64_t n, k;
  double beta;

  std::int64_t lda() const { return ta ? 3 : k; }
  std::int64_t ldb() const { return (tb ? k : n) + 2; }
  std::vector<double> random(Rng& rng, std::int64_t size) const {
    return list(normal(rng, {size}));
  }
};

// The largest error of ½·op(A)·op(B) + β·3, where β = 0 must ignore a NaN in C.
template <class T>
double error_of(const RowProduct& p) {
  Rng rng(8);
  const std::vector<double> a = p.random(rng, p.k * p.lda());
  const std::vector<double> b = p.random(rng, (p.tb ? p.n : p.k) * p.ldb());
  const std::vector<T> as(a.begin(), a.end()), bs(b.begin(), b.end());
  const T before = p.beta == 0 ? std::numeric_limits<T>::quiet_NaN() : T{3};
  std::vector<T> c(static_cast<std::size_t>(p.n), before);
  gemm(Gemm<T>{.ta = p.ta,
               .tb = p.tb,
               .m = 1,
               .n = p.n,
               .k = p.k,
               .a = as.data(),
               .lda = p.lda(),
               .b = bs.data(),
               .ldb = p.ldb(),
               .c = c.data(),
               .ldc = p.n,
               .alpha = T{0.5},
               .beta = static_cast<T>(p.beta)});
  double most = 0;
  for (std::int64_t j = 0; j < p.n; ++j) {
    double expected = 3 * p.beta;
    for (std::int64_t i = 0; i < p.k; ++i) {
      const std::int64_t in_a = p.ta ? i * p.lda() : i;
      const std::int64_t in_b = p.tb ? j * p.ldb() + i : i * p.ldb() + j;
      expected += 0.5 * a[static_cast<std::size_t>(in_a)] * b[static_cast<std::size_t>(in_b)];
    }
    const double error = std::abs(static_cast<double>(c[static_cast<std::size_t>(j)]) - expected);
    most = error <= most ? most : error;  // keeps a NaN
  }
  return most;
}

}  // namespace

// One row is a matrix times a vector, which goes a way of its own.
TEST_CASE("gemm of one row is the product, however its operands lie", "[gemm]") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [n, k] : {std::pair{1, 1}, {1, 900}, {5, 7}, {1000, 3}, {1000, 900}}) {
        for (const double beta : {0.0, 1.0, -2.0}) {
          if (n == 1000 && k == 900 && beta != (ta == tb ? 0 : -2)) continue;  // it takes long
          INFO(ta << tb << " " << n << " by " << k << ", beta " << beta);
          CHECK(error_of<float>({ta, tb, n, k, beta}) < 1e-4);
          CHECK(error_of<double>({ta, tb, n, k, beta}) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("rows apart have the bits that they have alone, on any number of threads", "[gemm]") {
  Rng rng(9);
  const Precision precision = GENERATE(Precision::full, Precision::bf16);
  // The second is a long row that is cut in two; the third is none.
  for (const auto& [n, k] : {std::pair{200, 100}, {1000, 700}, {30, 20}}) {
    const Tensor x = normal(rng, {7, k}, DType::f32), w = normal(rng, {n, k}, DType::f32);
    const Tensor bias = normal(rng, {n}, DType::f32);
    const Threads three(3);
    const Tensor y = [&] {
      const BatchInvariant apart;
      return linear(x, {w, precision}, bias);
    }();
    const Threads one(1);
    for (std::int64_t i = 0; i < 7; ++i) {
      INFO(n << " by " << k << ", row " << i);
      CHECK(same_bits(y.rows(i, i + 1), linear(x.rows(i, i + 1), {w, precision}, bias)));
    }
    CHECK(difference(y, linear(x, {w, precision}, bias), 1e-3, 1e-4) == "");
  }
}

TEST_CASE("a symmetric product is the whole one, and has equal triangles, on any number of threads",
          "[gemm]") {
  Rng rng(10);
  for (const bool ta : {false, true}) {
    for (const auto& [n, k] :
         {std::pair{1, 5}, {7, 1}, {64, 9}, {65, 30}, {130, 700}, {300, 40}, {300, 0}}) {
      INFO(n << " by " << k << (ta ? ", transposed" : ""));
      const Tensor x = normal(rng, {ta ? k : n, ta ? n : k});
      const double* a = x.data<double>();
      const std::int64_t ld = ta ? n : k;
      Tensor whole = Tensor::full({n, n}, 3, DType::f64), half = whole.clone(),
             alone = whole.clone();
      const auto product = [&, n = n, k = k](Tensor& c) {
        return Gemm<double>{.ta = ta,
                            .tb = !ta,
                            .m = n,
                            .n = n,
                            .k = k,
                            .a = a,
                            .lda = ld,
                            .b = a,
                            .ldb = ld,
                            .c = c.mutable_data<double>(),
                            .ldc = n,
                            .alpha = 0.5};
      };
      gemm(product(whole));
      {
        const Threads three(3);
        gemm_symmetric(product(half));
      }
      {
        const Threads one(1);
        gemm_symmetric(product(alone));
      }
      CHECK(difference(half, whole, 1e-12, 1e-12) == "");
      CHECK(same_bits(half, transpose(half, 0, 1)));
      CHECK(same_bits(half, alone));
    }
  }
  CHECK_THROWS_WITH(gemm_symmetric(Gemm<double>{.m = 2, .n = 3}), ContainsSubstring("square"));
  CHECK_THROWS_WITH(gemm_symmetric(Gemm<double>{.m = 2, .n = 2, .beta = 1}),
                    ContainsSubstring("overwrites C"));
}
