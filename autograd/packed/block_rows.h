#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/packed/store_sums.h"

namespace tapegrad::packed {
namespace {

// Layouts whose elements stand in blocks with a scale: see stored_blocks.cpp for what files have.
// Four elements of each row stand side by side, for instructions that add products of four bytes. x
// is rounded to 8 bits, so that products of a block of 32 are sums of whole numbers, which are
// exact.
//
// A layout has, for a file: kStoredBytes of a block, and where its scales stand there, kScales. For
// a panel:
//   kHeaderBytes, kBlocks  what stands before so many blocks of 32 elements (a "super-block")
//   kBlockBytes            of a block of 32 elements of sixteen rows
//   group<G>(block)        elements 4·G to 4·G + 3 of each row: whole numbers, plus kOffset
//   scale(header, block)   an element is scale·number
//   kHasMins, min()        … plus min
//   kHasFactors, factor()  … where number is multiplied by a factor of each half of the block first

// The bytes `at` to `at` + size − 1 of block `index` of each row, one row behind the other.
struct RowBytes {
  const std::uint8_t* const* rows;
  std::int64_t block_bytes;
  void copy(std::int64_t index, std::int64_t at, std::int64_t size, std::uint8_t* to) const {
    for (std::int64_t r = 0; r < kRows; ++r, to += size) {
      const auto bytes = static_cast<std::size_t>(size);
      if (rows[r] != nullptr) std::memcpy(to, rows[r] + index * block_bytes + at, bytes);
      if (rows[r] == nullptr) std::memset(to, 0, bytes);
    }
  }
  // Four bytes of a row, which move, and shift, side by side.
  std::uint32_t word(std::int64_t r, std::int64_t index, std::int64_t at) const {
    std::uint32_t four = 0;
    if (rows[r] != nullptr) std::memcpy(&four, rows[r] + index * block_bytes + at, sizeof four);
    return four;
  }
};
inline std::uint8_t* put_word(std::uint32_t four, std::uint8_t* to) {
  std::memcpy(to, &four, sizeof four);
  return to + sizeof four;
}

// Defaults of a layout.
struct Blocks {
  static constexpr bool kRoundsX = true, kSigned = false, kHasMins = false, kHasFactors = false;
  static constexpr std::int64_t kHeaderBytes = 0, kBlocks = 1;
  static constexpr int kOffset = 0;
};

template <class Layout>
std::int64_t bytes_of_panel(std::int64_t in) {
  return in / Layout::kElements * (Layout::kHeaderBytes + Layout::kBlocks * Layout::kBlockBytes);
}

// All elements are numbers if the scales, f16, are: a scale that is none makes none of 0, too.
template <class Layout>
bool all_finite_blocks(const std::uint8_t* stored, std::int64_t elements) {
  bool odd = false;
  for (std::int64_t i = 0; i < elements / Layout::kElements; ++i, stored += Layout::kStoredBytes) {
    for (const std::int64_t at : Layout::kScales) {
      std::uint16_t scale;
      std::memcpy(&scale, stored + at, sizeof scale);
      odd |= (scale & 0x7c00) == 0x7c00;
    }
  }
  return !odd;
}

// Where nibbles of elements 0 to 15 and 16 to 31 share bytes, as in q4_0 and q4_1: byte b of a
// vector of groups G and G + 4.
inline void pack_nibbles(const RowBytes& from, std::int64_t index, std::int64_t at,
                         std::uint8_t* to) {
  for (int g = 0; g < 4; ++g, to += 4 * kRows) from.copy(index, at + 4 * g, 4, to);
}
template <class V, int G>
typename V::B nibbles(const std::uint8_t* from) {
  const auto both = V::bytes(from + G % 4 * 64);
  return G < 4 ? V::low_nibbles(both) : V::high_nibbles(both);
}

template <class V>
struct Q8_0 : Blocks {
  static constexpr const char* kName = "q8_0";
  static constexpr std::int64_t kElements = 32, kBlockBytes = 34 * kRows;
  static constexpr std::int64_t kStoredBytes = 34, kScales[] = {0};
  static constexpr bool kSigned = true;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i) {
      for (int g = 0; g < 8; ++g, to += 64) from.copy(i, 2 + 4 * g, 4, to);
      from.copy(i, 0, 2, to);
      to += 2 * kRows;
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::bytes(block + 64 * G);
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 512);
  }
};

template <class V>
struct Q4_0 : Blocks {
  static constexpr const char* kName = "q4_0";
  static constexpr std::int64_t kElements = 32, kBlockBytes = 18 * kRows;
  static constexpr std::int64_t kStoredBytes = 18, kScales[] = {0};
  static constexpr int kOffset = 8;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i, to += kBlockBytes) {
      pack_nibbles(from, i, 2, to);
      from.copy(i, 0, 2, to + 256);
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return nibbles<V, G>(block);
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 256);
  }
};

template <class V>
struct Q4_1 : Blocks {
  static constexpr const char* kName = "q4_1";
  static constexpr std::int64_t kElements = 32, kBlockBytes = 20 * kRows;
  static constexpr std::int64_t kStoredBytes = 20, kScales[] = {0, 2};
  static constexpr bool kHasMins = true;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i, to += kBlockBytes) {
      pack_nibbles(from, i, 4, to);
      from.copy(i, 0, 2, to + 256);
      from.copy(i, 2, 2, to + 288);
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return nibbles<V, G>(block);
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 256);
  }
  static typename V::F min(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 288);
  }
};

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
      const F product = V::mul(V::floats(sum(j)), V::mul(scale, V::set(of_x.scale)));
      totals[j] = V::add(totals[j], product);
      if constexpr (Layout::kHasMins) {
        const float weight = of_x.scale * static_cast<float>(of_x.sums[0] + of_x.sums[1]);
        totals[j] = V::add(totals[j], V::mul(Layout::min(header, block), V::set(weight)));
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
      prefetch(block + kAhead, Layout::kBlockBytes);
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
    for (std::int64_t r = first; r < last; ++r) {
      float* const row = to + (r - first) * in + 4 * G;
      for (std::int64_t b = 0; b < 4; ++b) {
        const std::uint8_t byte = w.byte[4 * r + b];
        const int number =
            Layout::kSigned ? static_cast<std::int8_t>(byte) : byte - Layout::kOffset;
        row[b] = by.lane[r] * static_cast<float>(number);
        if constexpr (Layout::kHasMins) row[b] += min.lane[r];
      }
    }
    if constexpr (G < 7) groups<G + 1>(block, scale, min, in, to);
  }
};

}  // namespace
}  // namespace tapegrad::packed
