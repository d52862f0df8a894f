// Stored types of super-blocks: 256 elements in blocks of 32 or 16, whose scales are short numbers,
// too. See stored_block.h.

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/tensor/internal/stored_block.h"

namespace tapegrad::detail {
namespace {

constexpr int kSuper = 256;
// A block whose elements are no larger is one of zeros.
constexpr float kNothing = 1e-15F;

bool all_finite(const float* x) { return std::isfinite(x[worst_of(x, kSuper)]); }

// Eight pairs of numbers of 6 bits in 12 bytes. The first four pairs are the lower bits of bytes 0
// to 3 and of 4 to 7. The others have their lower four bits in bytes 8 to 11, and their upper two
// on top of bytes 0 to 7.
struct SixBitPairs {
  std::uint8_t bytes[12];

  struct Pair {
    int scale, min;
  };
  Pair at(int b) const {
    if (b < 4) return {bytes[b] & 63, bytes[b + 4] & 63};
    return {(bytes[b + 4] & 15) | (bytes[b - 4] >> 6 << 4),
            (bytes[b + 4] >> 4) | (bytes[b] >> 6 << 4)};
  }
  // For b from 0 to 7, in this order.
  void put(int b, Pair p) {
    const auto byte = [](int x) { return static_cast<std::uint8_t>(x); };
    if (b < 4) {
      bytes[b] = byte(p.scale), bytes[b + 4] = byte(p.min);
    } else {
      bytes[b + 4] = byte((p.scale & 15) | ((p.min & 15) << 4));
      bytes[b - 4] = byte(bytes[b - 4] | (p.scale >> 4 << 6));
      bytes[b] = byte(bytes[b] | (p.min >> 4 << 6));
    }
  }
};

// How fine the search for a scale is: it tries inverse scales of (most + first + i·step) / range.
struct Search {
  int most;  // numbers are 0 to most
  float first, step;
  int steps;
};

// Finds x ≈ scale·number − min for a block of 32 elements: for each inverse scale that is tried,
// the weighted least squares of scale and min for the numbers that it rounds to. As
// make_qkx2_quants.
class BlockFit {
 public:
  BlockFit(const float* x, const Search& search) : x_(x), search_(search) {
    float squares = 0;
    for (int i = 0; i < kSize; ++i) squares += x[i] * x[i];
    const float mean = std::sqrt(squares / kSize);
    min_ = most_ = x[0];
    for (int i = 0; i < kSize; ++i) {
      weights_[i] = mean + std::fabs(x[i]);
      sum_w_ += weights_[i];
      sum_x_ += weights_[i] * x[i];
      min_ = std::min(min_, x[i]);
      most_ = std::max(most_, x[i]);
    }
    min_ = std::min(min_, 0.0F);
    if (most_ != min_) fit();
  }
  float scale() const { return scale_; }
  float min() const { return -min_; }
  const int* numbers() const { return numbers_; }

 private:
  static constexpr int kSize = 32;

  void round(float inverse, int* numbers) const {
    for (int i = 0; i < kSize; ++i) {
      numbers[i] = std::clamp(nearest_int(inverse * (x_[i] - min_)), 0, search_.most);
    }
  }
  float error(float scale, float min, const int* numbers) const {
    float sum = 0;
    for (int i = 0; i < kSize; ++i) {
      const float off = scale * static_cast<float>(numbers[i]) + min - x_[i];
      sum += weights_[i] * (off * off);
    }
    return sum;
  }

  void fit() {
    const auto most = static_cast<float>(search_.most);
    const float inverse = most / (most_ - min_);
    scale_ = 1 / inverse;
    round(inverse, numbers_);
    float best = error(scale_, min_, numbers_);
    int numbers[kSize];
    for (int step = 0; step <= search_.steps; ++step) {
      // The range begins at the best min so far.
      round((search_.first + search_.step * static_cast<float>(step) + most) / (most_ - min_),
            numbers);
      float sum_l = 0, sum_l2 = 0, sum_xl = 0;
      for (int i = 0; i < kSize; ++i) {
        const auto l = static_cast<float>(numbers[i]);
        sum_l += weights_[i] * l;
        sum_l2 += weights_[i] * l * l;
        sum_xl += weights_[i] * l * x_[i];
      }
      const float D = sum_w_ * sum_l2 - sum_l * sum_l;
      if (!(D > 0)) continue;
      float scale = (sum_w_ * sum_xl - sum_x_ * sum_l) / D;
      float min = (sum_l2 * sum_x_ - sum_l * sum_xl) / D;
      if (min > 0) {
        min = 0;
        scale = sum_xl / sum_l2;
      }
      const float off = error(scale, min, numbers);
      if (!(off < best)) continue;
      best = off, scale_ = scale, min_ = min;
      std::copy_n(numbers, kSize, numbers_);
    }
  }

  const float* x_;
  const Search search_;
  float weights_[kSize];
  int numbers_[kSize] = {};
  float sum_w_ = 0, sum_x_ = 0, min_, most_, scale_ = 0;
};

// The part that q4_k and q5_k share: an element is d·scale·number − dmin·min.
struct ScalesAndMins {
  f16 d, dmin;
  SixBitPairs pairs;

  // The factor and the offset of block b.
  struct Line {
    float scale, min;
  };
  Line line(int b) const {
    const SixBitPairs::Pair pair = pairs.at(b);
    return {to_float(d) * static_cast<float>(pair.scale),
            to_float(dmin) * static_cast<float>(pair.min)};
  }

  // Chooses them for 256 elements, whose numbers it returns. False if they do not fit.
  bool encode(const float* x, const Search& search, std::uint8_t (&numbers)[kSuper]) {
    float scales[8], mins[8];
    for (int b = 0; b < 8; ++b) {
      const BlockFit fit(x + 32 * b, search);
      scales[b] = fit.scale(), mins[b] = fit.min();
      for (int i = 0; i < 32; ++i)
        numbers[32 * b + i] = static_cast<std::uint8_t>(fit.numbers()[i]);
    }
    const float most_scale = std::max(0.0F, *std::max_element(scales, scales + 8));
    const float most_min = std::max(0.0F, *std::max_element(mins, mins + 8));
    const float by_scale = most_scale > 0 ? 63 / most_scale : 0.0F;
    const float by_min = most_min > 0 ? 63 / most_min : 0.0F;
    d = to_f16(most_scale / 63), dmin = to_f16(most_min / 63);
    if (!is_finite(d) || !is_finite(dmin)) return false;
    const auto six_bits = [](float v) { return std::clamp(nearest_int(v), 0, 63); };
    for (int b = 0; b < 8; ++b) {
      pairs.put(b, {six_bits(by_scale * scales[b]), six_bits(by_min * mins[b])});
    }
    for (int b = 0; b < 8; ++b) {
      const auto [scale, min] = line(b);
      for (int i = 32 * b; scale != 0 && i < 32 * b + 32; ++i) {
        const float number = std::clamp((x[i] + min) / scale, -1.0F, 64.0F);
        numbers[i] = static_cast<std::uint8_t>(std::clamp(nearest_int(number), 0, search.most));
      }
    }
    return true;
  }
};

struct Q4_K {
  static constexpr std::int64_t kElements = kSuper;
  ScalesAndMins lines;
  std::uint8_t nibbles[kSuper / 2];  // blocks 2c and 2c + 1 share 32 bytes

  template <class T>
  void decode(T* to) const {
    for (int b = 0; b < 8; ++b) {
      const auto [scale, min] = lines.line(b);
      for (int i = 0; i < 32; ++i) {
        const int number = nibbles[b / 2 * 32 + i] >> (b % 2 * 4) & 15;
        *to++ = static_cast<T>(scale * static_cast<float>(number) - min);
      }
    }
  }
  bool encode(const float* x) {
    std::uint8_t numbers[kSuper];
    if (!all_finite(x) || !lines.encode(x, {15, -1, 0.1F, 20}, numbers)) return false;
    for (int i = 0; i < kSuper / 2; ++i) {
      const int at = i / 32 * 64 + i % 32;
      nibbles[i] = static_cast<std::uint8_t>(numbers[at] | (numbers[at + 32] << 4));
    }
    return true;
  }
};
static_assert(sizeof(Q4_K) == 144);

struct Q5_K {
  static constexpr std::int64_t kElements = kSuper;
  ScalesAndMins lines;
  std::uint8_t fifth[32];  // bit b of byte i: of element i of block b
  std::uint8_t nibbles[kSuper / 2];

  template <class T>
  void decode(T* to) const {
    for (int b = 0; b < 8; ++b) {
      const auto [scale, min] = lines.line(b);
      for (int i = 0; i < 32; ++i) {
        const int low = nibbles[b / 2 * 32 + i] >> (b % 2 * 4) & 15;
        const int number = low | ((fifth[i] >> b & 1) << 4);
        *to++ = static_cast<T>(scale * static_cast<float>(number) - min);
      }
    }
  }
  bool encode(const float* x) {
    std::uint8_t numbers[kSuper];
    if (!all_finite(x) || !lines.encode(x, {31, -0.5F, 0.1F, 15}, numbers)) return false;
    std::fill_n(fifth, 32, std::uint8_t{0});
    for (int i = 0; i < kSuper; ++i) {
      fifth[i % 32] = static_cast<std::uint8_t>(fifth[i % 32] | (numbers[i] >> 4 << (i / 32)));
    }
    for (int i = 0; i < kSuper / 2; ++i) {
      const int at = i / 32 * 64 + i % 32;
      nibbles[i] = static_cast<std::uint8_t>((numbers[at] & 15) | ((numbers[at + 32] & 15) << 4));
    }
    return true;
  }
};
static_assert(sizeof(Q5_K) == 176);

// The scale with which 16 elements become numbers from −32 to 31, by weighted least squares: the
// best of some inverse scales near the one that takes the farthest element to −32. As
// make_qx_quants.
struct SixteenFit {
  static constexpr int kSize = 16, kMost = 32;
  float scale = 0;
  int numbers[kSize] = {};  // plus 32; 0 if all elements are next to nothing

  explicit SixteenFit(const float* x) {
    float most = 0;
    for (int i = 0; i < kSize; ++i) {
      if (std::fabs(x[i]) > std::fabs(most)) most = x[i];
    }
    if (std::fabs(most) < kNothing) return;
    attempt(x, -static_cast<float>(kMost) / most, true);
    for (int step = -9; step <= 9; ++step) {
      if (step == 0) continue;
      attempt(x, -(static_cast<float>(kMost) + 0.1F * static_cast<float>(step)) / most, false);
    }
  }

 private:
  float best_ = 0;

  void attempt(const float* x, float inverse, bool is_first) {
    int rounded[kSize];
    float sum_lx = 0, sum_l2 = 0;
    for (int i = 0; i < kSize; ++i) {
      rounded[i] = std::clamp(nearest_int(inverse * x[i]), -kMost, kMost - 1);
      const auto l = static_cast<float>(rounded[i]);
      const float w = x[i] * x[i];
      sum_lx += w * x[i] * l;
      sum_l2 += w * l * l;
    }
    if (!is_first && !(sum_l2 > 0 && sum_lx * sum_lx > best_ * sum_l2)) return;
    scale = sum_l2 > 0 ? sum_lx / sum_l2 : 0.0F;
    best_ = scale * sum_lx;
    for (int i = 0; i < kSize; ++i) numbers[i] = rounded[i] + kMost;
  }
};

// An element is d·scale·number, with a scale of 8 bits for each 16 numbers, of 6 bits, from −32 on.
struct Q6_K {
  static constexpr std::int64_t kElements = kSuper;
  std::uint8_t low[kSuper / 2], high[kSuper / 4];
  std::int8_t scales[kSuper / 16];
  f16 d;

  // Each half of 128 elements is four quarters of 32. Quarters 0 and 2, and 1 and 3, share bytes of
  // lower bits; all four share bytes of upper bits.
  struct Place {
    int low, low_shift, high, high_shift;
  };
  static Place place(int i) {
    const int half = i / 128, quarter = i % 128 / 32, n = i % 32;
    return {64 * half + quarter % 2 * 32 + n, quarter / 2 * 4, 32 * half + n, 2 * quarter};
  }

  template <class T>
  void decode(T* to) const {
    for (int i = 0; i < kSuper; ++i) {
      const Place p = place(i);
      const int number =
          (low[p.low] >> p.low_shift & 15) | ((high[p.high] >> p.high_shift & 3) << 4);
      const float scale = to_float(d) * static_cast<float>(scales[i / 16]);
      to[i] = static_cast<T>(scale * static_cast<float>(number - 32));
    }
  }

  bool encode(const float* x) {
    if (!all_finite(x)) return false;
    *this = {};
    std::vector<SixteenFit> fits;
    float most = 0;
    for (int b = 0; b < kSuper / 16; ++b) {
      fits.emplace_back(x + 16 * b);
      if (!std::isfinite(fits.back().scale)) return false;  // squares were too large
      if (std::fabs(fits.back().scale) > std::fabs(most)) most = fits.back().scale;
    }
    if (std::fabs(most) < kNothing) return true;  // zeros
    const float inverse = -128.0F / most;
    d = to_f16(1 / inverse);
    if (!is_finite(d)) return false;
    for (int b = 0; b < kSuper / 16; ++b) {
      const SixteenFit& fit = fits[static_cast<std::size_t>(b)];
      scales[b] = static_cast<std::int8_t>(std::min(127, nearest_int(inverse * fit.scale)));
      const float scale = to_float(d) * static_cast<float>(scales[b]);
      for (int i = 0; i < 16; ++i) {
        const float ratio = scale == 0 ? 0 : std::clamp(x[16 * b + i] / scale, -64.0F, 64.0F);
        const int rounded = std::clamp(nearest_int(ratio), -32, 31) + 32;
        put(16 * b + i, scale == 0 ? fit.numbers[i] : rounded);
      }
    }
    return true;
  }

 private:
  void put(int i, int number) {
    const Place p = place(i);
    low[p.low] = static_cast<std::uint8_t>(low[p.low] | ((number & 15) << p.low_shift));
    high[p.high] = static_cast<std::uint8_t>(high[p.high] | (number >> 4 << p.high_shift));
  }
};
static_assert(sizeof(Q6_K) == 210);

constexpr StoredType kTypes[] = {
    block_row<Q4_K>("q4_k", 12, 14),
    block_row<Q5_K>("q5_k", 13, 16),
    block_row<Q6_K>("q6_k", 14, 18),
};

}  // namespace

std::span<const StoredType> super_block_types() { return kTypes; }

}  // namespace tapegrad::detail
