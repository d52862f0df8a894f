// How a product is cut into pieces, which our threads share out. Everything here is independent of
// the library that multiplies.

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <vector>

#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

std::atomic<std::int64_t> multiplications{0};

// A row product with fewer elements of B than this gains nothing from multiply_row. It keeps the
// roundings of multiply, which are PyTorch's.
constexpr std::int64_t kLongRow = 4096;
// How many elements of B make it worthwhile to wake a thread for a row product. Two threads can
// still share GPT-2's smallest matrices.
constexpr std::int64_t kRowTile = 300'000;
// How many multiplications make it worthwhile to wake a thread for other products, and the fewest
// in a piece. OpenBLAS has other kernels, which round differently, for products of up to a million.
constexpr std::int64_t kWorthThread = kUncutWork / 2, kLeastPiece = 1'200'000;
// Pieces begin at multiples of this. The block sizes of all of OpenBLAS's kernels divide it.
constexpr std::int64_t kBlock = 48;
// The most pieces of OpenBLAS's that depend on the shape alone: each packs the operand that is not
// cut.
constexpr std::int64_t kMostParts = 16;

std::int64_t round_to_block(std::int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

template <class T>
Gemm<T> rows_of(const Gemm<T>& g, std::int64_t begin, std::int64_t end) {
  Gemm<T> part = g;
  part.m = end - begin;
  part.a += g.ta ? begin : begin * g.lda;
  part.c += begin * g.ldc;
  return part;
}

template <class T>
Gemm<T> columns_of(const Gemm<T>& g, std::int64_t begin, std::int64_t end) {
  Gemm<T> part = g;
  part.n = end - begin;
  part.b += g.tb ? begin * g.ldb : begin;
  part.c += begin;
  return part;
}

// True if the rows of a product have the same bits when they are computed in several calls.
template <class T>
bool rows_come_out_alike(const Multiplier<T>& by) {
  using Sum = typename Gemm<T>::Sum;
  constexpr std::int64_t m = 3 * kBlock + 1, n = 71, k = 530;
  std::vector<T> a(m * k), b(n * k);
  std::vector<Sum> whole(m * n), pieces(m * n);
  const auto number = [](std::size_t i) {
    return static_cast<T>((i * 7919) % 1009) / 1009 - T{0.5};
  };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = number(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = number(i + 500);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Gemm<T> g{.ta = ta,
                .tb = tb,
                .m = m,
                .n = n,
                .k = k,
                .a = a.data(),
                .lda = ta ? m : k,
                .b = b.data(),
                .ldb = tb ? k : n,
                .c = whole.data(),
                .ldc = n};
      by.multiply(g);
      g.c = pieces.data();
      for (const std::int64_t begin : {std::int64_t{0}, kBlock, 2 * kBlock}) {
        by.multiply(rows_of(g, begin, begin == 2 * kBlock ? m : begin + kBlock));
      }
      if (whole != pieces) return false;
    }
  }
  return true;
}

// The answer is kept for each T, since OpenBLAS alone is cut so, with the same kernels at all
// times.
template <class T>
bool may_cut_rows_anywhere(const Multiplier<T>& by) {
  if constexpr (std::is_same_v<T, bf16>) {
    return false;  // no library of bf16 claims it
  } else {
    static const bool alike = by.pieces == Pieces::rows && rows_come_out_alike(by);
    return alike;
  }
}

// How many columns of a row product have the same bits in a call of their own as in a longer one,
// if they begin at a multiple of this; 0 if that was not found. For a transposed B, as a weight is.
template <class T>
std::int64_t columns_that_come_out_alike(const Multiplier<T>& by) {
  constexpr std::int64_t n = 6 * kBlock + 5, k = 331;
  std::vector<T> a(k), b(n * k), whole(n), pieces(n);
  const auto number = [](std::size_t i) {
    return static_cast<T>((i * 7919) % 1009) / 1009 - T{0.5};
  };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = number(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = number(i + 500);
  Gemm<T> g{.tb = true, .m = 1, .n = n, .k = k, .a = a.data(), .lda = k, .b = b.data(), .ldb = k};
  g.c = whole.data(), g.ldc = n;
  by.multiply_row(g);
  g.c = pieces.data();
  for (std::int64_t i = 0; i < n; i += kBlock) {
    by.multiply_row(columns_of(g, i, std::min(n, i + kBlock)));
  }
  return whole == pieces ? kBlock : 0;
}

using Bounds = std::vector<std::int64_t>;

// Cuts [0, length) into parts of about equal size.
Bounds even_bounds(std::int64_t length, std::int64_t parts) {
  const std::int64_t step = round_to_block((length + parts - 1) / parts);
  Bounds bounds;
  for (std::int64_t i = 0; i < length; i += step) bounds.push_back(i);
  bounds.push_back(length);
  return bounds;
}

// Cuts [0, length) into a share for each thread. A long share is cut again after three quarters, so
// that a thread that finishes early can take the rest of another's. No part is shorter than
// `least`.
Bounds shares(std::int64_t length, std::int64_t threads, std::int64_t least) {
  constexpr std::int64_t kLong = 8 * kBlock;
  Bounds bounds{0};
  const auto add = [&](std::int64_t bound) {
    if (bound - bounds.back() >= least && length - bound >= least) bounds.push_back(bound);
  };
  for (std::int64_t i = 0; i < threads && threads > 1; ++i) {
    const std::int64_t begin = length * i / threads, end = length * (i + 1) / threads;
    add(round_to_block(begin));
    if (end - begin >= kLong) add(round_to_block(begin + (end - begin) * 3 / 4));
  }
  bounds.push_back(length);
  return bounds;
}

// Where a product is cut, between rows and between columns of C.
struct Cut {
  Bounds rows, columns;

  std::int64_t pieces() const {
    return static_cast<std::int64_t>((rows.size() - 1) * (columns.size() - 1));
  }
  template <class T>
  Gemm<T> piece(const Gemm<T>& g, std::int64_t i) const {
    const std::size_t across = columns.size() - 1;
    const std::size_t row = static_cast<std::size_t>(i) / across;
    const std::size_t column = static_cast<std::size_t>(i) % across;
    return columns_of(rows_of(g, rows[row], rows[row + 1]), columns[column], columns[column + 1]);
  }
};

// For Pieces::by_shape: tiles that oneDNN multiplies about as fast as the whole, or faster: it is
// slow on wide matrices that it must copy. Columns are cut first; then rows, until there are enough
// pieces for some threads, but not so far that packing a tile's columns takes much of its time:
// that of a transposed B takes longest.
template <class T>
Cut cut_by_shape(const Gemm<T>& g) {
  constexpr std::int64_t kFewRows = 512;
  constexpr double kPieceWork = 20e6;
  const std::int64_t width = g.m > kFewRows ? 384 : g.tb ? 128 : 192;
  const std::int64_t across = std::max<std::int64_t>(1, (g.n + width / 2) / width);
  const std::int64_t least = g.ta ? 64 : g.tb ? 192 : 96;
  const auto enough = static_cast<std::int64_t>(std::clamp(
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) / kPieceWork,
      4.0, 32.0));
  const auto most_down = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(g.m / least, 1, (enough + across - 1) / across));
  const auto down = static_cast<std::int64_t>(std::bit_floor(most_down));
  return {even_bounds(g.m, down), even_bounds(g.n, across)};
}

template <class T>
Cut cut_of(const Gemm<T>& g, const Multiplier<T>& by, double work) {
  if (by.pieces == Pieces::by_shape) return cut_by_shape(g);
  const auto parts = static_cast<std::int64_t>(
      std::min<double>(kMaxThreads, work / static_cast<double>(kWorthThread)));
  // Every piece packs the operand that is not cut. So a wide product is cut into columns. The bits
  // of columns depend on the cut, so the cut must be the same for any number of threads.
  if (g.n > 8 * g.m) return {{0, g.m}, even_bounds(g.n, std::min(parts, kMostParts))};
  if (!may_cut_rows_anywhere(by)) {
    return {even_bounds(g.m, std::min(parts, kMostParts)), {0, g.n}};
  }
  const std::int64_t least = std::max(kBlock, 1 + kLeastPiece / (g.n * g.k));
  return {shares(g.m, std::min<std::int64_t>(parts, num_threads()), least), {0, g.n}};
}

template <class T>
void log(const Gemm<T>& g) {
  count_multiplications(g.m * g.n * g.k);
  if (std::is_same_v<T, double>) return;
  log_product(
      {g.ta, g.tb, g.m, g.n, g.k, std::is_same_v<T, bf16> ? Precision::bf16 : Precision::full});
}

// True if multiply_row computes the product. The whole product decides, not a piece: multiply_row
// rounds differently.
template <class T>
bool is_long_row(const Gemm<T>& g, const Multiplier<T>& by) {
  return by.multiply_row != nullptr && g.m == 1 && g.n * g.k >= kLongRow;
}

template <class T>
Cut cut_of_row(const Gemm<T>& g) {
  return {{0, 1}, even_bounds(g.n, 1 + g.n * g.k / kRowTile)};
}

// All rows of a piece of long rows, a few columns at a time: each part of B is read from memory
// once, and from the processor's cache for the other rows.
template <class T>
void multiply_rows(const Gemm<T>& g, const Multiplier<T>& by) {
  constexpr std::int64_t kCached = 74'000;  // elements of B, 300 kB in f32
  static const std::int64_t alike = columns_that_come_out_alike(by);
  const std::int64_t step =
      g.tb && alike > 0 ? std::max<std::int64_t>(1, kCached / g.k / alike) * alike : g.n;
  for (std::int64_t j = 0; j < g.n; j += step) {
    const Gemm<T> columns = columns_of(g, j, std::min(g.n, j + step));
    for (std::int64_t i = 0; i < g.m; ++i) by.multiply_row(rows_of(columns, i, i + 1));
  }
}

template <class T>
void gemm_any(const Gemm<T>& g);

// See Gemm::batch_invariant.
template <class T>
void gemm_batch_invariant(const Gemm<T>& g) {
  const Gemm<T> first = rows_of(g, 0, 1);
  const Multiplier<T>& by = chosen(first);
  if (!is_long_row(first, by)) {
    for (std::int64_t i = 0; i < g.m; ++i) gemm_any(rows_of(g, i, i + 1));
    return;
  }
  if constexpr (!std::is_same_v<T, bf16>) {
    log(g);
    const Bounds bounds = cut_of_row(first).columns;
    parallel_for(std::ssize(bounds) - 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        multiply_rows(columns_of(g, bounds[i], bounds[i + 1]), by);
      }
    });
  }
}

template <class T>
void gemm_any(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0 || in_dry_run()) return;
  if (g.batch_invariant && g.m > 1) return gemm_batch_invariant(g);
  log(g);
  const Multiplier<T>& by = chosen(g);
  const bool as_row = is_long_row(g, by);
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if (!as_row && work < static_cast<double>(kUncutWork)) return by.multiply(g);
  const Cut cut = as_row ? cut_of_row(g) : cut_of(g, by, work);
  const auto multiply = as_row ? by.multiply_row : by.multiply;
  parallel_for(cut.pieces(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) multiply(cut.piece(g, i));
  });
}

// The rows of a block of a symmetric product: see gemm_symmetric(). Smaller blocks leave out more
// of the upper triangle, and pack more.
constexpr std::int64_t kSymmetricRows = 64;

// Copies the lower triangle of C into the upper one, in tiles that stay in the cache.
template <class T>
void mirror_lower(std::int64_t n, T* c, std::int64_t ldc) {
  constexpr std::int64_t kTile = 16;
  parallel_for((n + kTile - 1) / kTile, 8, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t begin = first * kTile; begin < std::min(n, last * kTile); begin += kTile) {
      const std::int64_t end = std::min(n, begin + kTile);  // of the columns that are read
      for (std::int64_t i = begin; i < n; i += kTile) {
        for (std::int64_t j = begin; j < end; ++j) {
          for (std::int64_t r = std::max(i, j + 1); r < std::min(n, i + kTile); ++r) {
            c[j * ldc + r] = c[r * ldc + j];
          }
        }
      }
    }
  });
}

template <class T>
void gemm_symmetric_any(const Gemm<T>& g) {
  check(g.m == g.n && g.beta == 0 && !g.batch_invariant,
        "[gemm] a symmetric product is square, overwrites C and is one: m {}, n {}, beta {}{}", g.m,
        g.n, g.beta, g.batch_invariant ? ", batch_invariant" : "");
  if (g.n == 0 || in_dry_run()) return;
  // Then A and B may be nowhere, and have no blocks.
  if (g.k == 0) return gemm_any(g);
  std::vector<Gemm<T>> blocks;  // the longest first, which helps to share them out
  for (std::int64_t begin = (g.n - 1) / kSymmetricRows * kSymmetricRows; begin >= 0;
       begin -= kSymmetricRows) {
    const std::int64_t end = std::min(g.n, begin + kSymmetricRows);
    blocks.push_back(columns_of(rows_of(g, begin, end), 0, end));
    log(blocks.back());
  }
  const std::int64_t grain =
      1 + kWorthThread / (kSymmetricRows * g.n * std::max<std::int64_t>(g.k, 1));
  parallel_for(std::ssize(blocks), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      chosen(blocks[i]).multiply(blocks[i]);
    }
  });
  mirror_lower(g.n, g.c, g.ldc);
}

std::atomic<GemmLog*> living{nullptr};
std::mutex log_mutex;

}  // namespace

void gemm(const Gemm<float>& g) { gemm_any(g); }
void gemm(const Gemm<double>& g) { gemm_any(g); }
void gemm(const Gemm<bf16>& g) { gemm_any(g); }

void gemm_symmetric(const Gemm<float>& g) { gemm_symmetric_any(g); }
void gemm_symmetric(const Gemm<double>& g) { gemm_symmetric_any(g); }

void count_multiplications(std::int64_t n) {
  multiplications.fetch_add(n, std::memory_order_relaxed);
}
double gemm_flops() {
  return 2.0 * static_cast<double>(multiplications.load(std::memory_order_relaxed));
}

double GemmShape::flops() const {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

GemmLog::GemmLog() { living = this; }
GemmLog::~GemmLog() {
  const std::lock_guard lock(log_mutex);
  living = nullptr;
}

void log_product(const GemmShape& shape) {
  if (living.load(std::memory_order_relaxed) == nullptr) return;
  const std::lock_guard lock(log_mutex);
  if (GemmLog* log = living) ++log->counts_[shape];
}

}  // namespace tapegrad
