// Stored types of super-blocks that are read and not written: their quantisers are searches that
// this project does not have. See stored_block.h.

#include <cstdint>

#include "tapegrad/autograd/tensor/internal/iq4_numbers.h"
#include "tapegrad/autograd/tensor/internal/stored_block.h"

namespace tapegrad::detail {
namespace {

constexpr int kSuper = 256;

constexpr int kSixteen = 16, kSixteens = kSuper / kSixteen;

// Two bits of 256 numbers: in each half, four quarters of 32 elements share 32 bytes.
struct TwoBits {
  std::uint8_t bytes[kSuper / 4];
  // Number i of the g-th 16.
  int at(int g, int i) const { return bytes[g / 8 * 32 + g % 2 * 16 + i] >> (g % 8 / 2 * 2) & 3; }
};

// An element is d·scale·number − dmin·min, with a scale and a min, of 4 bits each, for 16 numbers.
struct Q2_K {
  static constexpr std::int64_t kElements = kSuper;
  std::uint8_t scales_and_mins[kSixteens];
  TwoBits numbers;
  f16 d, dmin;

  template <class T>
  void decode(T* to) const {
    for (int g = 0; g < kSixteens; ++g) {
      const float scale = to_float(d) * static_cast<float>(scales_and_mins[g] & 15);
      const float min = to_float(dmin) * static_cast<float>(scales_and_mins[g] >> 4);
      for (int i = 0; i < kSixteen; ++i) {
        *to++ = static_cast<T>(scale * static_cast<float>(numbers.at(g, i)) - min);
      }
    }
  }
};
static_assert(sizeof(Q2_K) == 84);

// An element is d·scale·number: numbers of 3 bits from −4 on, and a scale of 6 bits from −32 on for
// each 16 of them.
struct Q3_K {
  static constexpr std::int64_t kElements = kSuper;
  std::uint8_t third[32];  // bit b of byte i: of element i of the b-th 32
  TwoBits low;
  std::uint8_t scales[12];
  f16 d;

  // The four lower bits of scales 0 to 7 and 8 to 15 share bytes 0 to 7. The two upper ones of
  // scales k, k + 4, k + 8 and k + 12 share byte 8 + k.
  int scale(int k) const {
    const int lower = scales[k % 8] >> (k / 8 * 4) & 15,
              upper = scales[8 + k % 4] >> (k / 4 * 2) & 3;
    return (lower | (upper << 4)) - 32;
  }

  template <class T>
  void decode(T* to) const {
    for (int g = 0; g < kSixteens; ++g) {
      const float factor = to_float(d) * static_cast<float>(scale(g));
      for (int i = 0; i < kSixteen; ++i) {
        const int upper = third[g % 2 * 16 + i] >> (g / 2) & 1;
        *to++ = static_cast<T>(factor * static_cast<float>((low.at(g, i) | (upper << 2)) - 4));
      }
    }
  }
};
static_assert(sizeof(Q3_K) == 110);

// Numbers of a table, as IQ4_NL's, and a scale of 6 bits from −32 on for each 32 of them.
struct IQ4_XS {
  static constexpr std::int64_t kElements = kSuper;
  f16 d;
  std::uint8_t upper[2], lower[4];  // two and four bits of each scale
  FourBits chosen[8];

  template <class T>
  void decode(T* to) const {
    for (int b = 0; b < 8; ++b) {
      const int scale =
          (lower[b / 2] >> (b % 2 * 4) & 15) | ((upper[b / 4] >> (b % 4 * 2) & 3) << 4);
      const float factor = to_float(d) * static_cast<float>(scale - 32);
      for (int i = 0; i < 32; ++i) {
        const int number = kIq4Numbers[chosen[b].at(i / 16, i % 16)];
        *to++ = static_cast<T>(factor * static_cast<float>(number));
      }
    }
  }
};
static_assert(sizeof(IQ4_XS) == 136);

constexpr StoredType kTypes[] = {
    block_row<Q2_K>("q2_k", 10),
    block_row<Q3_K>("q3_k", 11),
    block_row<IQ4_XS>("iq4_xs", 23),
};

}  // namespace

std::span<const StoredType> short_block_types() { return kTypes; }

}  // namespace tapegrad::detail
