#include "tapegrad/autograd/gemm/internal/int8_products.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace int8 {
namespace {

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

void multiply_tile(const ScaledProduct& p, const Tiles& tiles, std::int64_t row,
                   std::int64_t column, std::int32_t* sums) {
  const Gemm<std::int8_t>& all = p.sums;
  Gemm<std::int8_t> tile = all;
  tile.m = std::min(tiles.rows, all.m - row);
  tile.n = std::min(tiles.columns, all.n - column);
  tile.c = sums;
  tile.ldc = tile.n;
  std::int64_t begin = 0;
  for (std::int64_t part = 0; part == 0 || begin < all.k; ++part, begin += p.depth) {
    tile.k = std::min(p.depth, all.k - begin);
    tile.a = all.a + (all.ta ? begin * all.lda + row : row * all.lda + begin);
    tile.b = all.b + (all.tb ? column * all.ldb + begin : begin * all.ldb + column);
    chosen(tile).multiply(tile);
    const float* const of_rows = p.of_rows + part * all.m + row;
    const float* const of_columns =
        p.of_columns == nullptr ? nullptr : p.of_columns + part * all.n + column;
    for (std::int64_t i = 0; i < tile.m; ++i) {
      scale_row(sums + i * tile.n, of_rows[i], of_columns, tile.n, p.adds || part > 0,
                p.y + (row + i) * p.ldy + column);
    }
  }
}

}  // namespace

void run(const ScaledProduct& p) {
  const std::int64_t m = p.sums.m, n = p.sums.n, k = p.sums.k;
  const std::int64_t longest = std::min(k, p.depth);
  check(longest <= std::numeric_limits<std::int32_t>::max() / (127 * 127),
        "[int8] a sum of {} products of 8 bits is too long for 32 bits", longest);
  if (m == 0 || n == 0 || in_dry_run()) return;
  count_multiplications(m * n * k);
  log_product({p.sums.ta, p.sums.tb, m, n, k, Precision::int8});
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

}  // namespace int8

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
    g.ta ? copy_as_floats(g.a + begin * g.lda, depth, g.m, g.lda, a.data())
         : copy_as_floats(g.a + begin, g.m, depth, g.lda, a.data());
    g.tb ? copy_as_floats(g.b + begin, g.n, depth, g.ldb, b.data())
         : copy_as_floats(g.b + begin * g.ldb, depth, g.n, g.ldb, b.data());
    const Gemm<float> part{.ta = g.ta,
                           .tb = g.tb,
                           .m = g.m,
                           .n = g.n,
                           .k = depth,
                           .a = a.data(),
                           .lda = g.ta ? g.m : depth,
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
