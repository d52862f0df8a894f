#include "tapegrad/optim/internal/eigenvectors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kBlock = 32;   // rows that are made orthogonal to all before by products
constexpr double kLeastShare = 1e-6;  // of the largest eigenvalue: what is added to all

using Row = std::span<double>;

// In eight sums, which vector instructions add up at once.
double dot(Row a, Row b) {
  double sums[8] = {};
  std::size_t k = 0;
  for (; k + 8 <= a.size(); k += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += a[k + j] * b[k + j];
  }
  for (; k < a.size(); ++k) sums[0] += a[k] * b[k];
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

// Rows of a tensor of doubles, (n, n).
class Rows {
 public:
  explicit Rows(Tensor& t) : n_(t.dim(0)), at_(t.mutable_data<double>()) {}
  std::int64_t size() const { return n_; }
  double* from(std::int64_t row) const { return at_ + row * n_; }
  Row operator[](std::int64_t row) const { return {from(row), static_cast<std::size_t>(n_)}; }

 private:
  std::int64_t n_;
  double* at_;
};

// Makes the rows [begin, end) orthogonal to those before them. `shares` has room for kBlock rows.
void leave_earlier(const Rows& rows, std::int64_t begin, std::int64_t end, Tensor& shares) {
  if (begin == 0) return;
  const std::int64_t n = rows.size(), count = end - begin;
  double* c = shares.mutable_data<double>();
  gemm(Gemm<double>{.tb = true,
                    .m = count,
                    .n = begin,
                    .k = n,
                    .a = rows.from(begin),
                    .lda = n,
                    .b = rows.from(0),
                    .ldb = n,
                    .c = c,
                    .ldc = begin});
  gemm(Gemm<double>{.m = count,
                    .n = n,
                    .k = begin,
                    .a = c,
                    .lda = begin,
                    .b = rows.from(0),
                    .ldb = n,
                    .c = rows.from(begin),
                    .ldc = n,
                    .alpha = -1,
                    .beta = 1});
}

// Makes the rows [begin, end) orthonormal among each other, as far as one pass does.
void orthonormalise_among(const Rows& rows, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Row row = rows[i];
    for (std::int64_t j = begin; j < i; ++j) {
      const Row before = rows[j];
      const double share = dot(row, before);
      for (std::size_t k = 0; k < row.size(); ++k) row[k] -= share * before[k];
    }
    const double length = std::sqrt(dot(row, row));
    for (double& x : row) x /= length;
  }
}

// Gram–Schmidt. Twice is as orthogonal as rounding permits (Giraud et al., "The loss of
// orthogonality in the Gram–Schmidt orthogonalization process", 2005).
void orthonormalise(Tensor& t) {
  const Rows rows(t);
  Tensor shares = Tensor::empty({std::min(kBlock, rows.size()), rows.size()}, DType::f64);
  if (in_dry_run()) return;
  for (std::int64_t begin = 0; begin < rows.size(); begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, rows.size());
    for (int pass = 0; pass < 2; ++pass) {
      leave_earlier(rows, begin, end, shares);
      orthonormalise_among(rows, begin, end);
    }
  }
}

}  // namespace

std::vector<std::int64_t> iterate_eigenvectors(const Tensor& matrix, Tensor& basis) {
  const std::int64_t n = basis.dim(0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Tensor vectors = basis.to(DType::f64), factor = matrix.to(DType::f64);
  Tensor products = Tensor::empty({n, n}, DType::f64);
  gemm(Gemm<double>{.m = n,
                    .n = n,
                    .k = n,
                    .a = vectors.data<double>(),
                    .lda = n,
                    .b = factor.data<double>(),
                    .ldb = n,
                    .c = products.mutable_data<double>(),
                    .ldc = n});
  factor = Tensor();
  std::vector<double> values(static_cast<std::size_t>(n));
  const double* v = vectors.data<double>();
  double* s = products.mutable_data<double>();
  parallel_for(n, std::max<std::int64_t>(kGrain / n, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[static_cast<std::size_t>(i)] =
          std::inner_product(v + i * n, v + (i + 1) * n, s + i * n, 0.0);
  });
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  Tensor sorted = Tensor::empty({n, n}, DType::f64);
  const double least = kLeastShare * values[static_cast<std::size_t>(order.front())];
  double* to = sorted.mutable_data<double>();
  parallel_for(n, std::max<std::int64_t>(kGrain / n, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(i)] * n;
      for (std::int64_t k = 0; k < n; ++k) to[i * n + k] = s[from + k] + least * v[from + k];
    }
  });
  if (!(least > 0) && !in_dry_run()) {
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  }
  orthonormalise(sorted);
  basis = sorted.to(basis.dtype());
  return order;
}

}  // namespace tapegrad::optim
