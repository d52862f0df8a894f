#pragma once

#include "tapegrad/autograd/quantized/internal/block_products.h"
#include "tapegrad/autograd/quantized/internal/block_rows.h"
#include "tapegrad/autograd/quantized/internal/float_rows.h"
#include "tapegrad/autograd/quantized/internal/short_block_rows.h"
#include "tapegrad/autograd/quantized/internal/super_block_rows.h"

namespace tapegrad::quantized {
namespace {

template <class... Layouts>
struct LayoutList {};
// The layouts, in the order of layouts().
template <class V>
using AllLayouts =
    LayoutList<F32<V>, BF16<V>, F16<V>, Q8_0<V>, Q4_0<V>, Q4_1<V>, Q5_0<V>, Q5_1<V>, IQ4_NL<V>,
               MXFP4<V>, Q2_K<V>, Q3_K<V>, Q4_K<V>, Q5_K<V>, Q6_K<V>, IQ4_XS<V>>;

// The columns up to `end` of a panel, or of P panels: N at a time, then fewer.
template <class V, class Layout, int N>
void columns_of(const Product& p, std::int64_t panel, std::int64_t& column, std::int64_t end) {
  for (; column + N <= end; column += N) {
    multiply_blocks<V, Layout, N>(p, panel, column);
  }
  if constexpr (N > 1) columns_of<V, Layout, N / 2>(p, panel, column, end);
}
template <class V, class Layout, int P, int N>
void float_columns_of(const Product& p, std::int64_t panel, std::int64_t& column,
                      std::int64_t end) {
  for (; column + N <= end; column += N) multiply_floats<V, Layout, P, N>(p, panel, column);
  if constexpr (N > 1) float_columns_of<V, Layout, P, N / 2>(p, panel, column, end);
}

// P panels at a time, so that enough sums are on their way at once, then fewer.
template <class V, class Layout, int P>
void float_panels(const Product& p, std::int64_t& panel, std::int64_t begin, std::int64_t end) {
  for (; panel + P <= p.last; panel += P) {
    std::int64_t column = begin;
    float_columns_of<V, Layout, P, (V::kSums > P ? V::kSums / P : 1)>(p, panel, column, end);
  }
  if constexpr (P > 1) float_panels<V, Layout, P / 2>(p, panel, begin, end);
}

// Columns of x that stay in the processor's cache while all panels pass by.
constexpr std::int64_t kCachedX = 512 << 10;

template <class V, class Layout>
void multiply(const Product& p) {
  const std::int64_t column_bytes =
      Layout::kRoundsX ? p.in / kRounded * static_cast<std::int64_t>(sizeof(RoundedBlock))
                       : p.in * 4;
  const std::int64_t most = kCachedX / (column_bytes + 1) / 16 * 16 + 16;
  for (std::int64_t begin = 0; begin < p.columns; begin += most) {
    const std::int64_t end = begin + most < p.columns ? begin + most : p.columns;
    if constexpr (Layout::kRoundsX) {
      for (std::int64_t panel = p.first; panel < p.last; ++panel) {
        std::int64_t column = begin;
        columns_of<V, Layout, V::kColumns>(p, panel, column, end);
      }
    } else {
      std::int64_t panel = p.first;
      const bool few = (end - begin) * V::kPanels < V::kSums;
      few ? float_panels<V, Layout, 4>(p, panel, begin, end)
          : float_panels<V, Layout, V::kPanels>(p, panel, begin, end);
    }
  }
}

template <class V, class List>
struct KernelTable;
template <class V, class... Layouts>
struct KernelTable<V, LayoutList<Layouts...>> {
  static constexpr Multiply kKernels[] = {multiply<V, Layouts>...};
};
template <class V>
constexpr const Multiply* kernels_of() {
  return KernelTable<V, AllLayouts<V>>::kKernels;
}

}  // namespace
}  // namespace tapegrad::quantized
