#pragma once

#include <cstdint>

#include "tapegrad/autograd/quantized/internal/block_rows.h"

namespace tapegrad::quantized {
namespace {

// The sums of a block's products, for N columns of x, are added to `totals`.
template <class V, class Layout, int N>
struct BlockSums {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int kHalves = Layout::kHasFactors ? 2 : 1;

  const std::uint8_t *header, *block;
  const RoundedBlock* x;
  std::int64_t step;  // from a column of x to the next
  I sums[N][kHalves];

  void add_to(F (&totals)[N]) {
    begin();
    groups<0>();
    const F scale = Layout::scale(header, block);
    for (int j = 0; j < N; ++j) {
      const RoundedBlock& of_x = x[j * step];
      totals[j] = V::fused(V::floats(sum(j)), V::mul(scale, V::set(of_x.scale)), totals[j]);
      if constexpr (Layout::kHasMins) {
        totals[j] = V::fused(Layout::min(header, block), weight_of_min(of_x), totals[j]);
      }
    }
  }

 private:
  void begin() {
    for (int j = 0; j < N; ++j) {
      const std::int32_t* of_x = x[j * step].sums;
      for (int h = 0; h < kHalves; ++h) {
        const std::int32_t sum = kHalves == 2 ? of_x[h] : of_x[0] + of_x[1];
        sums[j][h] = Layout::kSigned ? V::signed_begin(sum) : V::ints(-Layout::kOffset * sum);
      }
    }
  }

  template <int G>
  void groups() {
    const typename V::B w = Layout::template group<G>(block);
    for (int j = 0; j < N; ++j) {
      I& sum = sums[j][kHalves == 2 ? G / 4 : 0];
      const std::int8_t* four = x[j * step].q + 4 * G;
      sum = Layout::kSigned ? V::signed_dot(sum, w, four) : V::dot(sum, w, four);
    }
    if constexpr (G < 7) groups<G + 1>();
  }

  F weight_of_min(const RoundedBlock& of_x) const {
    if constexpr (Layout::kHasMinFactors) {
      const I first = V::mul(V::ints(of_x.sums[0]), Layout::min_factor(block, 0));
      const I both = V::add(first, V::mul(V::ints(of_x.sums[1]), Layout::min_factor(block, 1)));
      return V::mul(V::floats(both), V::set(of_x.scale));
    } else {
      return V::set(of_x.sum);
    }
  }

  I sum(int j) const {
    if constexpr (kHalves == 1) {
      return sums[j][0];
    } else {
      const I first = V::mul(sums[j][0], Layout::factor(block, 0));
      return V::add(first, V::mul(sums[j][1], Layout::factor(block, 1)));
    }
  }
};

// The products of a panel and N columns of x.
template <class V, class Layout, int N>
void multiply_blocks(const Product& p, std::int64_t panel, std::int64_t column) {
  typename V::F totals[N];
  for (auto& total : totals) total = V::set(0);
  const std::int64_t blocks = p.in / kRounded;
  const std::uint8_t* header = p.panels + panel * p.panel_bytes;
  const RoundedBlock* x = p.rounded + column * blocks;
  for (std::int64_t i = 0; i < blocks; i += Layout::kBlocks) {
    const std::uint8_t* block = header + Layout::kHeaderBytes;
    for (std::int64_t b = 0; b < Layout::kBlocks; ++b, block += Layout::kBlockBytes) {
      prefetch(block + kBlocksAhead, Layout::kBlockBytes);
      BlockSums<V, Layout, N>{header, block, x + i + b, blocks, {}}.add_to(totals);
    }
    header = block;
  }
  for (int j = 0; j < N; ++j) put<V>(p, panel, column + j, totals[j]);
}

// Rows [first, last) of a panel, one behind the other.
template <class V, class Layout>
struct RowsOfBlocks {
  std::int64_t first, last;
  void unpack(const std::uint8_t* header, std::int64_t in, float* to) const {
    for (std::int64_t i = 0; i < in / kRounded; i += Layout::kBlocks) {
      const std::uint8_t* block = header + Layout::kHeaderBytes;
      for (std::int64_t b = 0; b < Layout::kBlocks;
           ++b, block += Layout::kBlockBytes, to += kRounded) {
        const auto scale = Layout::scale(header, block);
        typename V::F min = {};
        if constexpr (Layout::kHasMins) min = Layout::min(header, block);
        groups<0>(block, scale, min, in, to);
      }
      header = block;
    }
  }

 private:
  template <int G>
  void groups(const std::uint8_t* block, const typename V::F& scale, const typename V::F& min,
              std::int64_t in, float* to) const {
    const auto w = Layout::template group<G>(block);
    typename V::F by = scale;
    if constexpr (Layout::kHasFactors) by = V::mul(scale, V::floats(Layout::factor(block, G / 4)));
    typename V::F plus = min;
    if constexpr (Layout::kHasMinFactors) {
      plus = V::mul(min, V::floats(Layout::min_factor(block, G / 4)));
    }
    for (std::int64_t r = first; r < last; ++r) {
      float* const row = to + (r - first) * in + 4 * G;
      for (std::int64_t b = 0; b < 4; ++b) {
        const std::uint8_t byte = w.byte[4 * r + b];
        const int number =
            Layout::kSigned ? static_cast<std::int8_t>(byte) : byte - Layout::kOffset;
        row[b] = by.lane[r] * static_cast<float>(number);
        if constexpr (Layout::kHasMins) row[b] += plus.lane[r];
      }
    }
    if constexpr (G < 7) groups<G + 1>(block, scale, min, in, to);
  }
};

}  // namespace
}  // namespace tapegrad::quantized
