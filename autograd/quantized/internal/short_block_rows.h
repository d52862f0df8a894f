#pragma once

#include "tapegrad/autograd/quantized/internal/super_block_rows.h"

namespace tapegrad::quantized {
namespace {

// Super-blocks with numbers of two or three bits, or of a table.

// An element is d·scale·number − dmin·min, with a scale and a min, of 4 bits each, for 16 numbers.
//   header: d and dmin of each row, f16
//   block: numbers of 2 bits; of each half, a byte with scale and min
template <class V>
struct Q2_K : Blocks {
  static constexpr const char* kName = "q2_k";
  static constexpr std::int64_t kElements = 256, kBlocks = 8, kHeaderBytes = 4 * kRows;
  static constexpr std::int64_t kBlockBytes = 128 + 2 * kRows;
  static constexpr std::int64_t kStoredBytes = 84, kScales[] = {80, 82};
  static constexpr bool kHasMins = true, kHasFactors = true, kHasMinFactors = true;

  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i) {
      from.copy(i, 80, 2, to);
      from.copy(i, 82, 2, to + 2 * kRows);
      to += kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) {
        pack_two_bits(from, i, b, 16, to);
        for (int half = 0; half < 2; ++half) from.copy(i, 2 * b + half, 1, to + 128 + half * kRows);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return two_bits<V, G, 0>(block);
  }
  static typename V::F scale(const std::uint8_t* header, const std::uint8_t*) {
    return V::f16s(header);
  }
  static typename V::I factor(const std::uint8_t* block, int half) {
    return V::template u4s<0>(block + 128 + half * kRows);
  }
  static typename V::F min(const std::uint8_t* header, const std::uint8_t*) {
    return V::mul(V::f16s(header + 2 * kRows), V::set(-1));
  }
  static typename V::I min_factor(const std::uint8_t* block, int half) {
    return V::template u4s<4>(block + 128 + half * kRows);
  }
};

// Numbers of 3 bits from −4 on, and a scale of 6 bits from −32 on for each 16 of them.
//   header: d of each row, f16
//   block: 2 lower bits; the third one; a scale of each half
template <class V>
struct Q3_K : Blocks {
  static constexpr const char* kName = "q3_k";
  static constexpr std::int64_t kElements = 256, kBlocks = 8, kHeaderBytes = 2 * kRows;
  static constexpr std::int64_t kBlockBytes = 128 + 64 + 2 * kRows;
  static constexpr std::int64_t kStoredBytes = 110, kScales[] = {108};
  static constexpr int kOffset = 4;
  static constexpr bool kHasFactors = true;

  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i) {
      from.copy(i, 108, 2, to);
      to += kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) {
        pack_two_bits(from, i, b, 32, to);
        pack_bits_of_block(from, i, b, 0, to + 128);
        pack_scales(from, i, b, to + 192);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::either(two_bits<V, G, 0>(block), V::template field<G, 1, 2>(V::bytes(block + 128)));
  }
  static typename V::F scale(const std::uint8_t* header, const std::uint8_t*) {
    return V::f16s(header);
  }
  static typename V::I factor(const std::uint8_t* block, int half) {
    return V::s8s(block + 192 + half * kRows);
  }

 private:
  // Four lower bits of scales 0 to 7 and 8 to 15 share bytes 0 to 7; two upper ones of scales k,
  // k + 4, k + 8 and k + 12 share byte 8 + k.
  static void pack_scales(const RowBytes& from, std::int64_t i, int b, std::uint8_t* to) {
    std::uint8_t twelve[12 * kRows];
    from.copy(i, 96, 12, twelve);
    for (int s = 2 * b; s < 2 * b + 2; ++s) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::uint8_t* const bytes = twelve + 12 * r;
        const int low = bytes[s % 8] >> (s / 8 * 4) & 15;
        const int high = bytes[8 + s % 4] >> (s / 4 * 2) & 3;
        *to++ = static_cast<std::uint8_t>((low | (high << 4)) - 32);
      }
    }
  }
};

// Numbers of a table, as iq4_nl's, and a scale of 6 bits from −32 on for each 32 of them.
//   header: d of each row, f16
//   block: 4 bits of each number; a scale
template <class V>
struct IQ4_XS : Blocks {
  static constexpr const char* kName = "iq4_xs";
  static constexpr std::int64_t kElements = 256, kBlocks = 8, kHeaderBytes = 2 * kRows;
  static constexpr std::int64_t kBlockBytes = 256 + kRows;
  static constexpr std::int64_t kStoredBytes = 136, kScales[] = {0};
  static constexpr bool kSigned = true;

  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i) {
      from.copy(i, 0, 2, to);
      to += kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) {
        pack_nibbles(from, i, 8 + 16 * b, to);
        pack_scales(from, i, b, to + 256);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::lookup(kIq4Numbers, nibbles<V, G>(block));
  }
  static typename V::F scale(const std::uint8_t* header, const std::uint8_t* block) {
    return V::mul(V::f16s(header), V::floats(V::s8s(block + 256)));
  }

 private:
  // Bytes 2 and 3 have two upper bits of each scale, bytes 4 to 7 the four lower ones.
  static void pack_scales(const RowBytes& from, std::int64_t i, int b, std::uint8_t* to) {
    std::uint8_t six[6 * kRows];
    from.copy(i, 2, 6, six);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::uint8_t* const bytes = six + 6 * r;
      const int low = bytes[2 + b / 2] >> (b % 2 * 4) & 15, high = bytes[b / 4] >> (b % 4 * 2) & 3;
      to[r] = static_cast<std::uint8_t>((low | (high << 4)) - 32);
    }
  }
};

}  // namespace
}  // namespace tapegrad::quantized
