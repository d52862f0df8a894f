// Products without packing, against sums in double.

#include <numeric>

#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

template <class T>
std::vector<T> numbers(std::int64_t n, int seed) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>((static_cast<int>(i) * 7919 + seed) % 1009) / 1009 - T{0.5};
  }
  return x;
}

// The largest error of an element of C, and whether anything beside C was written.
template <class T>
void check_product(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, bool add) {
  const std::int64_t gap = 3, lda = (transposed ? m : k) + gap, ldb = n + gap, ldc = n + gap;
  const auto a = numbers<T>((transposed ? k : m) * lda, 1), b = numbers<T>(k * ldb, 2);
  const auto before = numbers<T>(m * ldc, 3);
  auto c = before;
  const T alpha = T{0.5};
  SmallProduct<T>{.m = m,
                  .n = n,
                  .k = k,
                  .a = a.data(),
                  .a_row = transposed ? 1 : lda,
                  .a_column = transposed ? lda : 1,
                  .b = b.data(),
                  .ldb = ldb,
                  .c = c.data(),
                  .ldc = ldc,
                  .alpha = alpha,
                  .add = add}();
  const auto at = [](const std::vector<T>& x, std::int64_t i) {
    return static_cast<double>(x[static_cast<std::size_t>(i)]);
  };
  double worst = 0;
  bool beside = false;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < ldc; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k && j < n; ++p) {
        sum += at(a, transposed ? p * lda + i : i * lda + p) * at(b, p * ldb + j);
      }
      const double old = at(before, i * ldc + j);
      const double want = j < n ? (add ? old : 0) + static_cast<double>(alpha) * sum : old;
      const double error = std::abs(at(c, i * ldc + j) - want);
      if (j < n) worst = std::max(worst, error);
      if (j >= n && error > 0) beside = true;
    }
  }
  INFO("m " << m << " n " << n << " k " << k << " transposed " << transposed << " add " << add);
  CHECK(worst <= (sizeof(T) == 4 ? 2e-5 : 1e-13));
  CHECK_FALSE(beside);
}

}  // namespace

TEST_CASE("small products of all sizes are right, and write C alone", "[small_product]") {
  for (const std::int64_t m : {0, 1, 7, 16, 29}) {
    for (const std::int64_t n : {1, 5, 16, 32, 71}) {
      for (const std::int64_t k : {0, 1, 64, 300}) {
        for (const bool transposed : {false, true}) {
          for (const bool add : {false, true}) {
            check_product<float>(m, n, k, transposed, add);
            check_product<double>(m, n, k, transposed, add);
          }
        }
      }
    }
  }
}

TEST_CASE("a matrix of any size is transposed and scaled", "[small_product]") {
  for (const std::int64_t rows : {1, 4, 7, 16}) {
    for (const std::int64_t columns : {1, 4, 10, 33}) {
      const std::int64_t ld_from = columns + 2, ld_to = rows + 5;
      const auto x = numbers<float>(rows * ld_from, 5);
      std::vector<float> y(static_cast<std::size_t>(columns * ld_to), 9.0F);
      transpose(x.data(), ld_from, rows, columns, 2.0F, y.data(), ld_to);
      bool right = true;
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < ld_to; ++r) {
          const float want = r < rows ? 2 * x[static_cast<std::size_t>(r * ld_from + c)] : 9.0F;
          right = right && y[static_cast<std::size_t>(c * ld_to + r)] == want;
        }
      }
      INFO(rows << " x " << columns);
      CHECK(right);
    }
  }
}

TEST_CASE("the error of a small product does not grow with the length of its sums",
          "[small_product]") {
  constexpr std::int64_t k = 8192, n = 33;
  const std::vector<float> a(k, 1.0F), b(k * n, 0.1F);
  std::vector<float> c(n);
  SmallProduct<float>{.m = 1,
                      .n = n,
                      .k = k,
                      .a = a.data(),
                      .a_row = k,
                      .a_column = 1,
                      .b = b.data(),
                      .ldb = n,
                      .c = c.data(),
                      .ldc = n}();
  // One sum after another would be off by 7e-5 of it.
  for (const float sum : c) {
    CHECK(static_cast<double>(sum) == Approx(k * static_cast<double>(0.1F)).epsilon(5e-6));
  }
}
