#include "tapegrad/autograd/gemm/int8_columns.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tapegrad/autograd/gemm/internal/int8_products.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kStrip = 256;  // columns that are rounded together

// Up to kStrip columns of a block.
struct Strip {
  const float* x;
  std::int8_t* to;
  float* scales;
  std::int64_t rows, columns, ldx, ld;
  std::int64_t first_row, first_column;  // of the matrix
  bool stochastic;
};

// By bits, which are ordered as magnitudes are.
void largest_magnitudes(const Strip& s, std::uint32_t* __restrict most) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
  std::fill_n(most, s.columns, 0U);
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const float* const __restrict x = s.x + i * s.ldx;
    for (std::int64_t j = 0; j < s.columns; ++j) {
      most[j] = std::max(most[j], std::bit_cast<std::uint32_t>(x[j]) & kMagnitude);
    }
  }
}

// How the numbers of a strip's columns become whole ones.
struct StripRounding {
  std::array<std::uint32_t, kStrip> kept;  // no bits of a column that becomes zeros, or all
  std::array<float, kStrip> inverses;
  std::array<std::uint32_t, kStrip> seeds;
};

// Without a branch, so that the loop becomes vector code. `added` gives, for a column, what is
// added to its number.
template <class Added>
void round_row(const float* __restrict x, const StripRounding& how, std::int64_t n, Added added,
               std::int8_t* __restrict to) {
  const std::uint32_t* const __restrict kept = how.kept.data();
  const float* const __restrict inverses = how.inverses.data();
  for (std::int64_t j = 0; j < n; ++j) {
    const auto bits = std::bit_cast<std::uint32_t>(x[j]) & kept[j];
    to[j] = int8::to_int8(std::bit_cast<float>(bits) * inverses[j] + added(j));
  }
}

void round_strip(const Strip& s) {
  std::array<std::uint32_t, kStrip> most;
  StripRounding how;
  largest_magnitudes(s, most.data());
  for (std::int64_t j = 0; j < s.columns; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const int8::Rounding rounding(std::bit_cast<float>(most[at]));
    how.kept[at] = rounding.is_zero ? 0 : ~0U;
    how.inverses[at] = rounding.inverse;
    how.seeds[at] = int8::dither_seed(most[at] + static_cast<std::uint32_t>(s.first_column + j));
    s.scales[j] = rounding.scale;
  }
  const std::uint32_t* const seeds = how.seeds.data();
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const float* const x = s.x + i * s.ldx;
    std::int8_t* const to = s.to + i * s.ld;
    if (s.stochastic) {
      const auto row = static_cast<std::uint32_t>(s.first_row + i);
      round_row(
          x, how, s.columns, [=](std::int64_t j) { return int8::dither(seeds[j], row); }, to);
    } else {
      round_row(
          x, how, s.columns, [](std::int64_t) { return 0.0F; }, to);
    }
  }
}

std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

std::int64_t blocks_of(std::int64_t rows) {
  return std::max<std::int64_t>(1, parts_of(rows, Int8Columns::kBlock));
}

// Rows an odd number of cache lines apart: where it is a multiple of a large power of two, the
// numbers of a column share few places in the first cache, and products take twice the time.
std::int64_t without_collisions(std::int64_t columns) {
  constexpr std::int64_t kLine = 64;
  return (parts_of(columns, kLine) | 1) * kLine;
}

}  // namespace

Int8Columns::Int8Columns(const float* x, std::int64_t rows, std::int64_t columns, bool stochastic)
    : rows_(rows),
      columns_(columns),
      ld_(without_collisions(columns)),
      numbers_(static_cast<std::size_t>(rows * ld_)),
      scales_(static_cast<std::size_t>(blocks_of(rows) * columns) * sizeof(float)) {
  auto* const to = static_cast<std::int8_t*>(numbers_.data());
  auto* const scales = static_cast<float*>(scales_.data());
  const std::int64_t across = parts_of(columns, kStrip);
  parallel_for(blocks_of(rows) * across, 1, [=, ld = ld_](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / across, row = block * kBlock, column = i % across * kStrip;
      round_strip({.x = x + row * columns + column,
                   .to = to + row * ld + column,
                   .scales = scales + block * columns + column,
                   .rows = std::min(kBlock, rows - row),
                   .columns = std::min(kStrip, columns - column),
                   .ldx = columns,
                   .ld = ld,
                   .first_row = row,
                   .first_column = column,
                   .stochastic = stochastic});
    }
  });
}

void multiply_columns(const Int8Columns& a, const Int8Columns& b, float* c, bool adds) {
  check(a.rows() == b.rows(), "[int8] columns of {} and {} numbers make no product", a.rows(),
        b.rows());
  int8::run({.sums = {.ta = true,
                      .m = a.columns(),
                      .n = b.columns(),
                      .k = a.rows(),
                      .a = a.data(),
                      .lda = a.ld(),
                      .b = b.data(),
                      .ldb = b.ld()},
             .depth = Int8Columns::kBlock,
             .of_rows = a.scales(),
             .of_columns = b.scales(),
             .y = c,
             .ldy = b.columns(),
             .adds = adds});
}

}  // namespace tapegrad
