#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/quantized/internal/store_sums.h"
#include "tapegrad/autograd/tensor/internal/fp4_numbers.h"
#include "tapegrad/autograd/tensor/internal/iq4_numbers.h"

namespace tapegrad::quantized {
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
//   kHasMinFactors, min_factor()  … and so is min

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
  static constexpr bool kRoundsX = true, kSigned = false, kHasMins = false, kHasFactors = false,
                        kHasMinFactors = false;
  static constexpr std::int64_t kHeaderBytes = 0, kBlocks = 1;
  static constexpr int kOffset = 0;
  static bool is_odd_scale(const std::uint8_t* stored) {
    std::uint16_t scale;
    std::memcpy(&scale, stored, sizeof scale);
    return (scale & 0x7c00) == 0x7c00;
  }
};

template <class Layout>
std::int64_t bytes_of_panel(std::int64_t in) {
  return in / Layout::kElements * (Layout::kHeaderBytes + Layout::kBlocks * Layout::kBlockBytes);
}

// All elements are numbers if the scales are, which are f16 unless a layout says more: a scale that
// is none makes none of 0, too.
template <class Layout>
bool all_finite_blocks(const std::uint8_t* stored, std::int64_t elements) {
  bool odd = false;
  for (std::int64_t i = 0; i < elements / Layout::kElements; ++i, stored += Layout::kStoredBytes) {
    for (const std::int64_t at : Layout::kScales) odd |= Layout::is_odd_scale(stored + at);
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

// The numbers of a table, which four bits choose.
template <class V>
struct IQ4_NL : Q4_0<V> {
  static constexpr const char* kName = "iq4_nl";
  static constexpr int kOffset = 0;
  static constexpr bool kSigned = true;
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::lookup(kIq4Numbers, nibbles<V, G>(block));
  }
};

// The same with other numbers, and scales that are powers of two, which panels have as bf16.
template <class V>
struct MXFP4 : IQ4_NL<V> {
  static constexpr const char* kName = "mxfp4";
  static constexpr std::int64_t kStoredBytes = 17, kScales[] = {0};
  static bool is_odd_scale(const std::uint8_t* stored) { return *stored > kMostFp4Scale; }
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / 32; ++i, to += Q4_0<V>::kBlockBytes) {
      pack_nibbles(from, i, 1, to);
      std::uint8_t scales[kRows];
      from.copy(i, 0, 1, scales);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::uint16_t scale = half_scale_as_bf16(scales[r]);
        std::memcpy(to + 256 + 2 * r, &scale, sizeof scale);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::lookup(kFp4Numbers, nibbles<V, G>(block));
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::bf16s(block + 256);
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

// A fifth bit of each number, in a vector before the nibbles: bit G of byte 4·r + b is that of
// element 4·G + b of row r.
template <class V, int G>
typename V::B five_bits(const std::uint8_t* from) {
  return V::either(nibbles<V, G>(from + 64), V::template field<G, 1>(V::bytes(from)));
}
// Where a block has them as 32 bits: that of element i is bit i.
inline void pack_fifth_bits(const RowBytes& from, std::int64_t index, std::int64_t at,
                            std::uint8_t* to) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::uint32_t bits = from.word(r, index, at);
    std::uint32_t four = 0;
    // The product has bits 0 to 3 of its factor at the bottom of bytes 0 to 3.
    for (int g = 0; g < 8; ++g) {
      four |= ((bits >> (4 * g) & 15) * 0x00204081U & 0x01010101U) << g;
    }
    to = put_word(four, to);
  }
}

template <class V>
struct Q5_0 : Blocks {
  static constexpr const char* kName = "q5_0";
  static constexpr std::int64_t kElements = 32, kBlockBytes = 22 * kRows;
  static constexpr std::int64_t kStoredBytes = 22, kScales[] = {0};
  static constexpr int kOffset = 16;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i, to += kBlockBytes) {
      pack_fifth_bits(from, i, 2, to);
      pack_nibbles(from, i, 6, to + 64);
      from.copy(i, 0, 2, to + 320);
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return five_bits<V, G>(block);
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 320);
  }
};

template <class V>
struct Q5_1 : Blocks {
  static constexpr const char* kName = "q5_1";
  static constexpr std::int64_t kElements = 32, kBlockBytes = 24 * kRows;
  static constexpr std::int64_t kStoredBytes = 24, kScales[] = {0, 2};
  static constexpr bool kHasMins = true;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i, to += kBlockBytes) {
      pack_fifth_bits(from, i, 4, to);
      pack_nibbles(from, i, 8, to + 64);
      from.copy(i, 0, 2, to + 320);
      from.copy(i, 2, 2, to + 352);
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return five_bits<V, G>(block);
  }
  static typename V::F scale(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 320);
  }
  static typename V::F min(const std::uint8_t*, const std::uint8_t* block) {
    return V::f16s(block + 352);
  }
};

}  // namespace
}  // namespace tapegrad::quantized
