#pragma once

#include "tapegrad/autograd/quantized/internal/block_rows.h"

namespace tapegrad::quantized {
namespace {

// ggml's "k" types: super-blocks of 256 elements, eight blocks of 32 whose scales are themselves
// short numbers. What files pack into 6 bits has a byte here.

// The 6-bit scale and min of block b of a super-block of q4_k or q5_k, of 12 bytes: those of the
// first four blocks are the low bits of bytes 0 to 7; the upper bits of these hold the upper ones
// of the others, whose lower four are in bytes 8 to 11.
struct SixBits {
  std::uint8_t scale, min;
  static SixBits of(const std::uint8_t* bytes, int b) {
    const auto byte = [](int x) { return static_cast<std::uint8_t>(x); };
    if (b < 4) return {byte(bytes[b] & 63), byte(bytes[b + 4] & 63)};
    return {byte((bytes[b + 4] & 15) | (bytes[b - 4] >> 6 << 4)),
            byte((bytes[b + 4] >> 4) | (bytes[b] >> 6 << 4))};
  }
};

// A bit of each number of block b, where bit b of byte n is that of element n: see five_bits().
inline void pack_bits_of_block(const RowBytes& from, std::int64_t i, int b, std::int64_t at,
                               std::uint8_t* to) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::uint32_t bits = 0;
    for (int g = 0; g < 8; ++g) bits |= (from.word(r, i, at + 4 * g) >> b & 0x01010101U) << g;
    to = put_word(bits, to);
  }
}

// Two bits of each number of block b: four blocks share 32 bytes. A vector has those of 16 elements
// of each row.
inline void pack_two_bits(const RowBytes& from, std::int64_t i, int b, std::int64_t at,
                          std::uint8_t* to) {
  for (int n = 0; n < 32; n += 16) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      std::uint32_t bits = 0;
      for (int g = 0; g < 4; ++g) {
        const std::uint32_t four = from.word(r, i, at + b / 4 * 32 + n + 4 * g);
        bits |= (four >> (b % 4 * 2) & 0x03030303U) << (2 * g);
      }
      to = put_word(bits, to);
    }
  }
}
template <class V, int G, int To>
typename V::B two_bits(const std::uint8_t* from) {
  return V::template field<2 * (G % 4), 2, To>(V::bytes(from + G / 4 * 64));
}

// The part that q4_k and q5_k share: an element is d·scale·number − dmin·min.
//   header: d and dmin of each row, f16
template <class V>
struct ScalesAndMins : Blocks {
  static constexpr std::int64_t kElements = 256, kBlocks = 8, kHeaderBytes = 4 * kRows;
  static constexpr std::int64_t kScales[] = {0, 2};
  static constexpr bool kHasMins = true;
  // A block begins with its scales and mins.
  static constexpr std::int64_t kNumbers = 2 * kRows;

  static void pack_header(const RowBytes& from, std::int64_t i, std::uint8_t* to) {
    from.copy(i, 0, 2, to);
    from.copy(i, 2, 2, to + 2 * kRows);
  }
  static void pack_scales(const RowBytes& from, std::int64_t i, int b, std::uint8_t* to) {
    std::uint8_t twelve[12 * kRows];
    from.copy(i, 4, 12, twelve);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const SixBits bits = SixBits::of(twelve + 12 * r, b);
      to[r] = bits.scale;
      to[kRows + r] = bits.min;
    }
  }
  static typename V::F scale(const std::uint8_t* header, const std::uint8_t* block) {
    return V::mul(V::f16s(header), V::u8s(block));
  }
  static typename V::F min(const std::uint8_t* header, const std::uint8_t* block) {
    const auto product = V::mul(V::f16s(header + 2 * kRows), V::u8s(block + kRows));
    return V::mul(product, V::set(-1));
  }
  // Blocks 2c and 2c + 1 share 32 bytes: of each of these, the lower and the upper nibble.
  static void pack_numbers(const RowBytes& from, std::int64_t i, int b, std::int64_t at,
                           std::uint8_t* to) {
    for (int g = 0; g < 4; ++g) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto four = [&](int n) {
          return from.word(r, i, at + b / 2 * 32 + n) >> (b % 2 * 4) & 0x0f0f0f0fU;
        };
        to = put_word(four(4 * g) | (four(4 * g + 16) << 4), to);
      }
    }
  }
};

template <class V>
struct Q4_K : ScalesAndMins<V> {
  using Base = ScalesAndMins<V>;
  static constexpr const char* kName = "q4_k";
  static constexpr std::int64_t kBlockBytes = Base::kNumbers + 256, kStoredBytes = 144;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / Base::kElements; ++i) {
      Base::pack_header(from, i, to);
      to += Base::kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) {
        Base::pack_scales(from, i, b, to);
        Base::pack_numbers(from, i, b, 16, to + Base::kNumbers);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return nibbles<V, G>(block + Base::kNumbers);
  }
};

template <class V>
struct Q5_K : ScalesAndMins<V> {
  using Base = ScalesAndMins<V>;
  static constexpr const char* kName = "q5_k";
  static constexpr std::int64_t kBlockBytes = Base::kNumbers + 64 + 256, kStoredBytes = 176;
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / Base::kElements; ++i) {
      Base::pack_header(from, i, to);
      to += Base::kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) {
        Base::pack_scales(from, i, b, to);
        pack_bits_of_block(from, i, b, 16, to + Base::kNumbers);
        Base::pack_numbers(from, i, b, 48, to + Base::kNumbers + 64);
      }
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return five_bits<V, G>(block + Base::kNumbers);
  }
};

// Numbers of 6 bits and a scale of 8 bits for each 16 of them.
//   header: d of each row, f16
//   block: 4 lower bits; 2 upper bits of 16 elements of a row in each of two vectors; two scales
template <class V>
struct Q6_K : Blocks {
  static constexpr const char* kName = "q6_k";
  static constexpr std::int64_t kElements = 256, kBlocks = 8, kHeaderBytes = 2 * kRows;
  static constexpr std::int64_t kBlockBytes = 256 + 128 + 2 * kRows;
  static constexpr std::int64_t kStoredBytes = 210, kScales[] = {208};
  static constexpr int kOffset = 32;
  static constexpr bool kHasFactors = true;

  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* to) {
    const RowBytes from{rows, kStoredBytes};
    for (std::int64_t i = 0; i < in / kElements; ++i) {
      from.copy(i, 208, 2, to);
      to += kHeaderBytes;
      for (int b = 0; b < 8; ++b, to += kBlockBytes) pack_block(from, i, b, to);
    }
  }
  template <int G>
  static typename V::B group(const std::uint8_t* block) {
    return V::either(nibbles<V, G>(block), two_bits<V, G, 4>(block + 256));
  }
  static typename V::F scale(const std::uint8_t* header, const std::uint8_t*) {
    return V::f16s(header);
  }
  static typename V::I factor(const std::uint8_t* block, int half) {
    return V::s8s(block + 384 + half * kRows);
  }

 private:
  // The lower four bits of elements n to n + 3 of block b: four blocks share 64 bytes.
  static std::uint32_t lower(const RowBytes& from, std::int64_t r, std::int64_t i, int b, int n) {
    const int half = b / 4, quarter = b % 4;
    const std::uint32_t both = from.word(r, i, 64 * half + quarter % 2 * 32 + n);
    return both >> (quarter / 2 * 4) & 0x0f0f0f0fU;
  }
  static void pack_block(const RowBytes& from, std::int64_t i, int b, std::uint8_t* to) {
    for (int g = 0; g < 4; ++g) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::uint32_t first = lower(from, r, i, b, 4 * g);
        to = put_word(first | (lower(from, r, i, b, 4 * g + 16) << 4), to);
      }
    }
    pack_two_bits(from, i, b, 128, to);
    to += 128;
    for (int half = 0; half < 2; ++half) from.copy(i, 192 + 2 * b + half, 1, to + half * kRows);
  }
};

}  // namespace
}  // namespace tapegrad::quantized
