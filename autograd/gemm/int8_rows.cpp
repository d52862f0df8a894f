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

// Some neighbours of a row, from its element `first` on.
struct Piece {
  const float* x;
  const float* factors;  // or null
  std::int64_t first, n;
  std::int8_t* to;
};

// Each number, times `inverse` and plus what `added` gives for its place, as a whole one.
template <class Added>
void round_piece(const Piece& p, float inverse, Added added) {
  const float* const __restrict x = p.x;
  const float* const __restrict factors = p.factors;
  std::int8_t* const __restrict to = p.to;
  if (factors == nullptr) {
    for (std::int64_t i = 0; i < p.n; ++i) to[i] = int8::to_int8(x[i] * inverse + added(i));
  } else {
    for (std::int64_t i = 0; i < p.n; ++i) {
      to[i] = int8::to_int8(x[i] * factors[i] * inverse + added(i));
    }
  }
}

// Returns the scale.
float round_piece(const Piece& p, bool stochastic) {
  const float largest = largest_magnitude(p.x, p.factors, p.n);
  const int8::Rounding rounding(largest);
  if (rounding.is_zero) {
    std::fill_n(p.to, p.n, std::int8_t{0});
  } else if (stochastic) {
    const std::uint32_t seed = int8::dither_seed(std::bit_cast<std::uint32_t>(largest)) +
                               static_cast<std::uint32_t>(p.first);
    round_piece(p, rounding.inverse, [seed](std::int64_t i) {
      return int8::dither(seed, static_cast<std::uint32_t>(i));
    });
  } else {
    round_piece(p, rounding.inverse, [](std::int64_t) { return 0.0F; });
  }
  return rounding.scale;
}

std::int64_t blocks_of(std::int64_t columns, std::int64_t block) {
  return std::max<std::int64_t>(1, (columns + block - 1) / block);
}

}  // namespace

Int8Rows::Int8Rows(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                   const Int8RowsOptions& options)
    : rows_(rows),
      columns_(columns),
      block_(std::max<std::int64_t>(1, options.block == 0 ? columns : options.block)),
      numbers_(static_cast<std::size_t>(rows * columns)),
      scales_(static_cast<std::size_t>(blocks_of(columns, block_) * rows) * sizeof(float)) {
  constexpr std::int64_t kGrain = 16384;  // elements that make it worthwhile to wake a thread
  auto* const to = static_cast<std::int8_t*>(numbers_.data());
  auto* const scales = static_cast<float*>(scales_.data());
  const std::int64_t blocks = blocks_of(columns, block_);
  const std::int64_t grain = 1 + kGrain / std::max<std::int64_t>(1, columns);
  parallel_for(rows, grain, [=, block = block_](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t part = 0; part < blocks; ++part) {
        const std::int64_t first = part * block;
        scales[part * rows + i] =
            round_piece({.x = x + i * ld + first,
                         .factors = options.factors == nullptr ? nullptr : options.factors + first,
                         .first = first,
                         .n = std::min(block, columns - first),
                         .to = to + i * columns + first},
                        options.stochastic);
      }
    }
  });
}

void multiply(const Int8Rows& x, const Int8Rows& w, float* y, std::int64_t ldy, bool adds) {
  const std::int64_t k = x.columns();
  check(w.columns() == k, "[int8] rows of {} and {} numbers make no product", k, w.columns());
  check(x.block() >= k && w.block() >= k, "[int8] rows of several scales make no product");
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

void multiply_back(const float* dy, std::int64_t rows, const Int8Rows& w, float* dx,
                   Int8RowsOptions how) {
  how.factors = w.scales();
  const Int8Rows rounded(dy, rows, w.rows(), w.rows(), how);
  int8::run({.sums = {.m = rows,
                      .n = w.columns(),
                      .k = w.rows(),
                      .a = rounded.data(),
                      .lda = w.rows(),
                      .b = w.data(),
                      .ldb = w.columns()},
             .depth = rounded.block(),
             .of_rows = rounded.scales(),
             .of_columns = nullptr,
             .y = dx,
             .ldy = w.columns(),
             .adds = false});
}

}  // namespace tapegrad
