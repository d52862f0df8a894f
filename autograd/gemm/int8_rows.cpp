#include "tapegrad/autograd/gemm/int8_rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

constexpr float kMost = 127;
constexpr float kLeast = 0x1p-119F;  // below it, 127 over the largest magnitude may be infinite

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

// To the nearest whole number: the sum has no bits for fractions.
std::int8_t to_int8(float x) {
  constexpr float kNoFraction = 0x1.8p23F;
  return static_cast<std::int8_t>(static_cast<std::int32_t>((x + kNoFraction) - kNoFraction));
}

// Returns the scale.
float round_row(const float* __restrict x, const float* __restrict factors, std::int64_t n,
                std::int8_t* __restrict to) {
  const float most = largest_magnitude(x, factors, n);
  const bool is_finite = most <= std::numeric_limits<float>::max();
  if (!is_finite || most < kLeast) {
    std::fill_n(to, n, std::int8_t{0});
    return is_finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = kMost / most;
  if (factors == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = to_int8(x[i] * inverse);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = to_int8(x[i] * factors[i] * inverse);
  }
  return most / kMost;
}

// A product of 8 bits, what its sums are multiplied by, and where they go.
struct Scaled {
  Gemm<std::int8_t> sums;
  const float *of_rows, *of_columns;  // the latter may be null: 1
  float* y;
  std::int64_t ldy;
  bool adds;
};

// A tile of C: of its size, sums stay in the processor's second cache until they are scaled.
struct Tiles {
  std::int64_t rows = 256, columns = 512;

  // Smaller ones if there are few for the threads: how sums are cut changes no bit.
  Tiles(std::int64_t m, std::int64_t n) {
    constexpr std::int64_t kForEachThread = 4, kFewRows = 64;
    columns = std::min(columns, n);
    rows = std::min(rows, m);
    while (rows > kFewRows && down(m) * across(n) < kForEachThread * num_threads()) rows /= 2;
  }
  std::int64_t down(std::int64_t m) const { return (m + rows - 1) / rows; }
  std::int64_t across(std::int64_t n) const { return (n + columns - 1) / columns; }
};

void scale_row(const std::int32_t* __restrict sums, float scale, const float* __restrict scales,
               std::int64_t n, bool adds, float* __restrict y) {
  const auto scaled = [&](std::int64_t j) {
    const float sum = static_cast<float>(sums[j]) * scale;
    return scales == nullptr ? sum : sum * scales[j];
  };
  if (adds) {
    for (std::int64_t j = 0; j < n; ++j) y[j] += scaled(j);
  } else {
    for (std::int64_t j = 0; j < n; ++j) y[j] = scaled(j);
  }
}

void multiply_tile(const Scaled& p, const Tiles& tiles, std::int64_t row, std::int64_t column,
                   std::int32_t* sums) {
  Gemm<std::int8_t> tile = p.sums;
  tile.m = std::min(tiles.rows, tile.m - row);
  tile.n = std::min(tiles.columns, tile.n - column);
  tile.a += row * tile.lda;
  tile.b += tile.tb ? column * tile.ldb : column;
  tile.c = sums;
  tile.ldc = tile.n;
  chosen(tile).multiply(tile);
  for (std::int64_t i = 0; i < tile.m; ++i) {
    scale_row(sums + i * tile.n, p.of_rows[row + i],
              p.of_columns == nullptr ? nullptr : p.of_columns + column, tile.n, p.adds,
              p.y + (row + i) * p.ldy + column);
  }
}

void run(const Scaled& p) {
  const std::int64_t m = p.sums.m, n = p.sums.n, k = p.sums.k;
  check(k <= std::numeric_limits<std::int32_t>::max() / (127 * 127),
        "[int8] a sum of {} products of 8 bits is too long for 32 bits", k);
  if (m == 0 || n == 0 || in_dry_run()) return;
  count_multiplications(m * n * k);
  log_product({false, p.sums.tb, m, n, k, Precision::int8});
  const Tiles tiles(m, n);
  const std::int64_t across = tiles.across(n), count = tiles.down(m) * across;
  parallel_for(count, m * n * k < kUncutWork ? count : 1,
               [&](std::int64_t begin, std::int64_t end) {
                 const Scratch sums(static_cast<std::size_t>(tiles.rows * tiles.columns) *
                                    sizeof(std::int32_t));
                 for (std::int64_t i = begin; i < end; ++i) {
                   multiply_tile(p, tiles, i / across * tiles.rows, i % across * tiles.columns,
                                 static_cast<std::int32_t*>(sums.data()));
                 }
               });
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
  run({.sums = {.tb = true,
                .m = x.rows(),
                .n = w.rows(),
                .k = k,
                .a = x.data(),
                .lda = k,
                .b = w.data(),
                .ldb = k},
       .of_rows = x.scales(),
       .of_columns = w.scales(),
       .y = y,
       .ldy = ldy,
       .adds = adds});
}

void multiply_back(const float* dy, std::int64_t rows, const Int8Rows& w, float* dx) {
  const Int8Rows rounded(dy, rows, w.rows(), w.rows(), w.scales());
  run({.sums = {.m = rows,
                .n = w.columns(),
                .k = w.rows(),
                .a = rounded.data(),
                .lda = w.rows(),
                .b = w.data(),
                .ldb = w.columns()},
       .of_rows = rounded.scales(),
       .of_columns = nullptr,
       .y = dx,
       .ldy = w.columns(),
       .adds = false});
}

namespace {

void copy_as_floats(const std::int8_t* from, std::int64_t rows, std::int64_t columns,
                    std::int64_t ld, float* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) to[i * columns + j] = from[i * ld + j];
  }
}

}  // namespace

void multiply_by_floats(const Gemm<std::int8_t>& g) {
  constexpr std::int64_t kDepth = 1024;  // 1024·127² is below 2^24: each sum is a float
  const std::int64_t most = std::min(g.k, kDepth);
  std::vector<float> a(static_cast<std::size_t>(g.m * most)),
      b(static_cast<std::size_t>(g.n * most)), c(static_cast<std::size_t>(g.m * g.n));
  for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, 0);
  for (std::int64_t begin = 0; begin < g.k; begin += kDepth) {
    const std::int64_t depth = std::min(kDepth, g.k - begin);
    copy_as_floats(g.a + begin, g.m, depth, g.lda, a.data());
    g.tb ? copy_as_floats(g.b + begin, g.n, depth, g.ldb, b.data())
         : copy_as_floats(g.b + begin * g.ldb, depth, g.n, g.ldb, b.data());
    const Gemm<float> part{.tb = g.tb,
                           .m = g.m,
                           .n = g.n,
                           .k = depth,
                           .a = a.data(),
                           .lda = depth,
                           .b = b.data(),
                           .ldb = g.tb ? depth : g.n,
                           .c = c.data(),
                           .ldc = g.n};
    chosen(part).multiply(part);
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        g.c[i * g.ldc + j] += static_cast<std::int32_t>(c[static_cast<std::size_t>(i * g.n + j)]);
      }
    }
  }
}

}  // namespace tapegrad
