#include "tapegrad/autograd/gemm/int8_rows.h"

#include <algorithm>
#include <bit>

#include "tapegrad/autograd/gemm/internal/int8_products.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// By bits, which are ordered as magnitudes are: NaN is above infinity. Without a branch, so that
// the loop becomes vector code.
float largest_magnitude(const float* x, const float* factors, std::int64_t n) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = factors == nullptr ? x[i] : x[i] * factors[i];
    most = std::max(most, std::bit_cast<std::uint32_t>(v) & kMagnitude);
  }
  return std::bit_cast<float>(most);
}

// Returns the scale.
float round_row(const float* __restrict x, const float* __restrict factors, std::int64_t n,
                std::int8_t* __restrict to) {
  const int8::Rounding rounding(largest_magnitude(x, factors, n));
  const float inverse = rounding.inverse;
  if (rounding.is_zero) {
    std::fill_n(to, n, std::int8_t{0});
  } else if (factors == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = int8::to_int8(x[i] * inverse);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = int8::to_int8(x[i] * factors[i] * inverse);
  }
  return rounding.scale;
}

}  // namespace

Int8Rows::Int8Rows(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                   const float* factors)
    : rows_(rows),
      columns_(columns),
      numbers_(static_cast<std::size_t>(rows * columns)),
      scales_(static_cast<std::size_t>(rows) * sizeof(float)) {
  constexpr std::int64_t kGrain = 16384;  // elements that make it worthwhile to wake a thread
  auto* const to = static_cast<std::int8_t*>(numbers_.data());
  auto* const scales = static_cast<float*>(scales_.data());
  const std::int64_t grain = 1 + kGrain / std::max<std::int64_t>(1, columns);
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      scales[i] = round_row(x + i * ld, factors, columns, to + i * columns);
    }
  });
}

void multiply(const Int8Rows& x, const Int8Rows& w, float* y, std::int64_t ldy, bool adds) {
  const std::int64_t k = x.columns();
  check(w.columns() == k, "[int8] rows of {} and {} numbers make no product", k, w.columns());
  int8::run({.sums = {.tb = true,
                      .m = x.rows(),
                      .n = w.rows(),
                      .k = k,
                      .a = x.data(),
                      .lda = k,
                      .b = w.data(),
                      .ldb = k},
             .depth = std::max<std::int64_t>(1, k),
             .of_rows = x.scales(),
             .of_columns = w.scales(),
             .y = y,
             .ldy = ldy,
             .adds = adds});
}

void multiply_back(const float* dy, std::int64_t rows, const Int8Rows& w, float* dx) {
  const Int8Rows rounded(dy, rows, w.rows(), w.rows(), w.scales());
  int8::run({.sums = {.m = rows,
                      .n = w.columns(),
                      .k = w.rows(),
                      .a = rounded.data(),
                      .lda = w.rows(),
                      .b = w.data(),
                      .ldb = w.columns()},
             .depth = std::max<std::int64_t>(1, w.rows()),
             .of_rows = rounded.scales(),
             .of_columns = nullptr,
             .y = dx,
             .ldy = w.columns(),
             .adds = false});
}

}  // namespace tapegrad
