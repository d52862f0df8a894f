// Stored types whose elements stand in blocks: see stored_block.h.

#include "tapegrad/autograd/tensor/internal/fp4_numbers.h"
#include "tapegrad/autograd/tensor/internal/iq4_numbers.h"
#include "tapegrad/autograd/tensor/internal/stored_block.h"

namespace tapegrad::detail {
namespace {

// A scale, and whole numbers of 8 bits.
struct Q8_0 {
  static constexpr std::int64_t kElements = 32;
  f16 scale;
  std::int8_t values[kElements];

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale);
    for (std::int64_t i = 0; i < kElements; ++i) {
      to[i] = static_cast<T>(factor * static_cast<float>(values[i]));
    }
  }

  // As quantize_row_q8_0_ref: elements are rounded by the scale in f32, halves away from zero,
  // before the scale itself is rounded to f16. False if an element is no number, or too large.
  bool encode(const float* x) {
    float most = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < kElements; ++i) {
      finite &= std::isfinite(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    const float factor = most / 127.0F;
    // A scale so small that its inverse is ∞ is 0 as f16.
    const float inverse = factor > 0x1p-126F ? 1.0F / factor : 0.0F;
    scale = to_f16(factor);
    if (!finite || !is_finite(scale)) return false;
    for (std::int64_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
    }
    return true;
  }
};
static_assert(sizeof(Q8_0) == 34);

// FourBits with a fifth bit: that of element i is bit i of four bytes.
struct FiveBits {
  static constexpr int kMost = 31;
  std::uint8_t fifth[4];
  FourBits low;

  int at(int half, std::int64_t i) const {
    std::uint32_t bits;
    std::memcpy(&bits, fifth, sizeof bits);
    return low.at(half, i) | static_cast<int>((bits >> (16 * half + i) & 1) << 4);
  }
  void put(std::int64_t i, int number) {
    low.put(i, number);
    fifth[i / 8] = static_cast<std::uint8_t>(fifth[i / 8] | (number >> 4 << (i % 8)));
  }
};

// The inverse of a scale, 0 if that is no number.
float inverse_of(float factor) {
  return factor != 0 && std::isfinite(1 / factor) ? 1 / factor : 0.0F;
}

// A scale, and numbers with a sign: from −8 on for 4 bits, from −16 on for 5.
template <class Numbers>
struct Centred {
  static constexpr std::int64_t kElements = 32;
  static constexpr int kZero = (Numbers::kMost + 1) / 2;
  f16 scale;
  Numbers numbers;

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale);
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < 16; ++i) {
        *to++ = static_cast<T>(factor * static_cast<float>(numbers.at(half, i) - kZero));
      }
    }
  }

  // As quantize_row_q4_0_ref: the element that is farthest from 0 becomes the least number.
  bool encode(const float* x) {
    const float most = x[worst_of(x, kElements)], factor = most / -kZero;
    if (!std::isfinite(most)) return false;
    const float inverse = inverse_of(factor);
    scale = to_f16(factor);
    for (std::int64_t i = 0; i < kElements; ++i) {
      numbers.put(i, std::min(Numbers::kMost, static_cast<int>(x[i] * inverse + (kZero + 0.5F))));
    }
    return is_finite(scale);
  }
};
using Q4_0 = Centred<FourBits>;
using Q5_0 = Centred<FiveBits>;
static_assert(sizeof(Q4_0) == 18 && sizeof(Q5_0) == 22);

// A scale, the least element, and numbers from 0 on.
template <class Numbers>
struct FromLeast {
  static constexpr std::int64_t kElements = 32;
  f16 scale, least;
  Numbers numbers;

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale), min = to_float(least);
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < 16; ++i) {
        *to++ = static_cast<T>(static_cast<float>(numbers.at(half, i)) * factor + min);
      }
    }
  }

  // As quantize_row_q4_1_ref.
  bool encode(const float* x) {
    if (!std::isfinite(x[worst_of(x, kElements)])) return false;
    const auto [min, max] = std::minmax_element(x, x + kElements);
    const float low = *min, factor = (*max - low) / Numbers::kMost;
    const float inverse = inverse_of(factor);
    scale = to_f16(factor), least = to_f16(low);
    if (!is_finite(scale) || !is_finite(least)) return false;
    for (std::int64_t i = 0; i < kElements; ++i) {
      numbers.put(i, std::min(Numbers::kMost, static_cast<int>((x[i] - low) * inverse + 0.5F)));
    }
    return true;
  }
};
using Q4_1 = FromLeast<FourBits>;
using Q5_1 = FromLeast<FiveBits>;
static_assert(sizeof(Q4_1) == 20 && sizeof(Q5_1) == 24);

// A scale, and numbers of a table, which 4 bits choose. It is not written: its quantiser is a
// search that this project does not have.
struct IQ4_NL {
  static constexpr std::int64_t kElements = 32;
  f16 scale;
  FourBits chosen;

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale);
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < 16; ++i) {
        *to++ = static_cast<T>(factor * static_cast<float>(kIq4Numbers[chosen.at(half, i)]));
      }
    }
  }
};
static_assert(sizeof(IQ4_NL) == 18);

// A scale that is a power of two, and floats of 4 bits: gpt-oss's experts. It is not written.
struct MXFP4 {
  static constexpr std::int64_t kElements = 32;
  std::uint8_t scale;
  FourBits chosen;

  template <class T>
  void decode(T* to) const {
    const float factor = half_scale(scale);
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < 16; ++i) {
        *to++ = static_cast<T>(factor * static_cast<float>(kFp4Numbers[chosen.at(half, i)]));
      }
    }
  }
};
static_assert(sizeof(MXFP4) == 17);

constexpr StoredType kTypes[] = {
    block_row<Q8_0>("q8_0", 8, 7), block_row<Q4_0>("q4_0", 2, 2), block_row<Q4_1>("q4_1", 3, 3),
    block_row<Q5_0>("q5_0", 6, 8), block_row<Q5_1>("q5_1", 7, 9), block_row<IQ4_NL>("iq4_nl", 20),
    block_row<MXFP4>("mxfp4", 39),
};

}  // namespace

std::span<const StoredType> block_types() { return kTypes; }

}  // namespace tapegrad::detail
