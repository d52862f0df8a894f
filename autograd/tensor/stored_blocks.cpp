// Stored types whose elements stand in blocks: see stored_block.h.

#include "tapegrad/autograd/tensor/stored_block.h"

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

// A scale, and numbers of 4 bits from −8 on: the lower bits of a byte are one of the first half.
struct Q4_0 {
  static constexpr std::int64_t kElements = 32;
  f16 scale;
  std::uint8_t pairs[kElements / 2];

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale);
    for (std::int64_t i = 0; i < kElements / 2; ++i) {
      to[i] = static_cast<T>(factor * static_cast<float>((pairs[i] & 15) - 8));
      to[i + kElements / 2] = static_cast<T>(factor * static_cast<float>((pairs[i] >> 4) - 8));
    }
  }

  // As quantize_row_q4_0_ref: the element that is farthest from 0 becomes −8.
  bool encode(const float* x) {
    const float most = x[worst_of(x, kElements)], factor = most / -8;
    if (!std::isfinite(most)) return false;
    const float inverse = factor != 0 && std::isfinite(1 / factor) ? 1 / factor : 0.0F;
    scale = to_f16(factor);
    const auto number = [=](float v) { return std::min(15, static_cast<int>(v * inverse + 8.5F)); };
    for (std::int64_t i = 0; i < kElements / 2; ++i) {
      pairs[i] = static_cast<std::uint8_t>(number(x[i]) | (number(x[i + kElements / 2]) << 4));
    }
    return is_finite(scale);
  }
};
static_assert(sizeof(Q4_0) == 18);

// A scale, the least element, and numbers of 4 bits from 0 on.
struct Q4_1 {
  static constexpr std::int64_t kElements = 32;
  f16 scale, least;
  std::uint8_t pairs[kElements / 2];

  template <class T>
  void decode(T* to) const {
    const float factor = to_float(scale), min = to_float(least);
    const auto number = [=](int bits) {
      return static_cast<T>(static_cast<float>(bits) * factor + min);
    };
    for (std::int64_t i = 0; i < kElements / 2; ++i) {
      to[i] = number(pairs[i] & 15);
      to[i + kElements / 2] = number(pairs[i] >> 4);
    }
  }

  // As quantize_row_q4_1_ref.
  bool encode(const float* x) {
    if (!std::isfinite(x[worst_of(x, kElements)])) return false;
    const auto [min, max] = std::minmax_element(x, x + kElements);
    const float low = *min, factor = (*max - low) / 15;
    const float inverse = factor != 0 && std::isfinite(1 / factor) ? 1 / factor : 0.0F;
    scale = to_f16(factor), least = to_f16(low);
    if (!is_finite(scale) || !is_finite(least)) return false;
    const auto number = [=](float v) {
      return std::min(15, static_cast<int>((v - low) * inverse + 0.5F));
    };
    for (std::int64_t i = 0; i < kElements / 2; ++i) {
      pairs[i] = static_cast<std::uint8_t>(number(x[i]) | (number(x[i + kElements / 2]) << 4));
    }
    return true;
  }
};
static_assert(sizeof(Q4_1) == 20);

constexpr StoredType kTypes[] = {
    block_row<Q8_0>("q8_0", 8, 7),
    block_row<Q4_0>("q4_0", 2, 2),
    block_row<Q4_1>("q4_1", 3, 3),
};

}  // namespace

std::span<const StoredType> block_types() { return kTypes; }

}  // namespace tapegrad::detail
