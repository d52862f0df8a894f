#include "tapegrad/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"

// PyTorch's numbers depend on where its compiler fused a multiplication and an addition. Here, each
// of these places is an explicit std::fma, and no other product is added to anything. So every
// compiler gives the same numbers.

namespace tapegrad {
namespace {

// What begins the state of each kind; an old one is of a Kind::torch with PyTorch 2.6's randint().
constexpr std::string_view kTorchState = "torch-2.14", kOldTorchState = "torch";
constexpr std::string_view kPhiloxState = "philox";

constexpr size_t kNormalBlock = 16;  // PyTorch transforms 8 pairs at a time

// ln(x) for a normal x > 0, by the method and with the coefficients of logf in Moshier's Cephes.
float cephes_log(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  float exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f000000U);  // [0.5, 1)
  const bool low = mantissa < 0.70710678F;
  exponent -= low ? 1.0F : 0.0F;
  const float r = (mantissa - 1.0F) + (low ? mantissa : 0.0F);  // exact: mantissa · (1 or 2) − 1
  float p = 7.0376836292e-2F;
  p = std::fma(p, r, -1.1514610310e-1F);
  p = std::fma(p, r, 1.1676998740e-1F);
  p = std::fma(p, r, -1.2420140846e-1F);
  p = std::fma(p, r, 1.4249322787e-1F);
  p = std::fma(p, r, -1.6668057665e-1F);
  p = std::fma(p, r, 2.0000714765e-1F);
  p = std::fma(p, r, -2.4999993993e-1F);
  p = std::fma(p, r, 3.3333331174e-1F);
  // ln 2 is split in two, so that its product with the exponent loses nothing.
  const float square = r * r;
  const float correction = std::fma(p * r, square, exponent * -2.12194440e-4F);
  return std::fma(exponent, 0.693359375F, r + std::fma(square, -0.5F, correction));
}

struct SinCos {
  float sin, cos;
};

// Both for x in [0, 2π], by the method and with the coefficients of sinf and cosf in Cephes.
SinCos cephes_sin_cos(float x) {
  const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516F) + 1) & ~1;  // nearest even
  const float turns = static_cast<float>(octant);
  float r = std::fma(turns, -0.78515625F, x);  // x − octant · π/4, with π/4 in three parts
  r = std::fma(turns, -2.4187564849853515625e-4F, r);
  r = std::fma(turns, -3.77489497744594108e-8F, r);
  const float square = r * r;
  float c = 2.443315711809948e-5F;
  c = std::fma(c, square, -1.388731625493765e-3F);
  c = std::fma(c, square, 4.166664568298827e-2F);
  c = std::fma(c * square, square, square * -0.5F) + 1.0F;
  float s = -1.9515295891e-4F;
  s = std::fma(s, square, 8.3321608736e-3F);
  s = std::fma(s, square, -1.6666654611e-1F);
  s = std::fma(s * square, r, r);
  const bool swap = (octant & 2) != 0;
  const float sin = swap ? c : s;
  const float cos = swap ? s : c;
  return {(octant & 4) != 0 ? -sin : sin, ((octant + 2) & 4) != 0 ? -cos : cos};
}

// Box–Muller over blocks of 16 uniform numbers: 8 radii, then the 8 angles that belong to them.
void box_muller(std::span<float> numbers, float mean, float std) {
  constexpr float two_pi = static_cast<float>(2.0 * std::numbers::pi);
  for (size_t begin = 0; begin + kNormalBlock <= numbers.size(); begin += kNormalBlock) {
    float* block = numbers.data() + begin;
    for (size_t i = 0; i < kNormalBlock / 2; ++i) {
      const float radius = std::sqrt(-2.0F * cephes_log(1.0F - block[i]));
      const auto [sin, cos] = cephes_sin_cos(two_pi * block[i + 8]);
      block[i] = std::fma(radius * cos, std, mean);
      block[i + 8] = std::fma(radius * sin, std, mean);
    }
  }
}

void box_muller(std::span<double> numbers, double mean, double std) {
  for (size_t begin = 0; begin + kNormalBlock <= numbers.size(); begin += kNormalBlock) {
    double* block = numbers.data() + begin;
    for (size_t i = 0; i < kNormalBlock / 2; ++i) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - block[i]));
      const double theta = 2.0 * std::numbers::pi * block[i + 8];
      block[i] = std::fma(radius * std::cos(theta), std, mean);
      block[i + 8] = std::fma(radius * std::sin(theta), std, mean);
    }
  }
}

// Removes the first word of `text`, with the space behind it, and returns the word.
std::string_view take_word(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

template <class T>
T parse_number(std::string_view word, int base, const char* what) {
  const std::optional<T> number = number_of<T>(word, base);
  check(number.has_value(), "[rng] saved state: '{}' is not a valid {}", word.substr(0, 20), what);
  return *number;
}

template <size_t N>
std::array<uint32_t, N> parse_words(std::string_view hex) {
  check(hex.size() == 8 * N, "[rng] saved state: expected {} hexadecimal digits, found {}", 8 * N,
        hex.size());
  std::array<uint32_t, N> words;
  for (size_t i = 0; i < N; ++i) {
    words[i] = parse_number<uint32_t>(hex.substr(8 * i, 8), 16, "hexadecimal word");
  }
  return words;
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(key, counter[0], counter[1], counter[2], counter[3]);
    key = next_philox_key(key);
  }
  return counter;
}

Rng::Rng(uint64_t seed, Kind kind) : kind_(kind), seed_(seed) {
  if (kind_ == Kind::philox) {
    next_ = kBlockWords;
    return;
  }
  next_ = kStateWords;
  words_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kStateWords; ++i) {  // init_genrand of Matsumoto and Nishimura
    words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  }
}

void Rng::refill() {
  next_ = 0;
  if (kind_ == Kind::philox) {
    const auto block = philox_block(blocks_++);
    std::copy(block.begin(), block.end(), words_.begin());
    return;
  }
  constexpr uint32_t lag = 397;
  const auto twist = [this](uint32_t i, uint32_t following, uint32_t partner) {
    const uint32_t joined = (words_[i] & 0x80000000U) | (words_[following] & 0x7fffffffU);
    words_[i] = words_[partner] ^ (joined >> 1) ^ ((joined & 1U) != 0 ? 0x9908b0dfU : 0U);
  };
  for (uint32_t i = 0; i < kStateWords - lag; ++i) {
    twist(i, i + 1, i + lag);
  }
  for (uint32_t i = kStateWords - lag; i < kStateWords - 1; ++i) {
    twist(i, i + 1, i + lag - kStateWords);
  }
  twist(kStateWords - 1, 0, lag - 1);
}

std::array<uint32_t, 4> Rng::philox_block(uint64_t index) const {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                    philox_key(seed_));
}

void Rng::draw(std::span<float> out) {
  for (float& x : out) {
    x = uniform();
  }
}

void Rng::draw(std::span<double> out) {
  for (double& x : out) {
    x = uniform_double();
  }
}

template <class T>
void Rng::fill_uniform(std::span<T> out, double from, double to) {
  const T low = static_cast<T>(from);
  const T width = static_cast<T>(to) - low;
  check(from <= to && std::isfinite(width), "[uniform] needs finite from <= to: from {}, to {}",
        from, to);
  draw(out);
  for (T& x : out) {
    x = std::fma(x, width, low);
  }
}

void Rng::uniform(std::span<float> out, double from, double to) { fill_uniform(out, from, to); }
void Rng::uniform(std::span<double> out, double from, double to) { fill_uniform(out, from, to); }

double Rng::next_normal() {
  if (spare_normal_) {
    return *std::exchange(spare_normal_, std::nullopt);
  }
  const double theta = 2.0 * std::numbers::pi * uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform_double()));
  spare_normal_ = radius * std::sin(theta);
  return radius * std::cos(theta);
}

template <class T>
void Rng::fill_normal(std::span<T> out, double mean, double std) {
  check(std >= 0 && std::isfinite(static_cast<T>(std)) && std::isfinite(static_cast<T>(mean)),
        "[normal] needs a finite mean and std >= 0: mean {}, std {}", mean, std);
  if (out.size() < kNormalBlock) {
    for (T& x : out) {
      x = static_cast<T>(std::fma(next_normal(), std, mean));
    }
    return;
  }
  draw(out);
  box_muller(out, static_cast<T>(mean), static_cast<T>(std));
  if (out.size() % kNormalBlock != 0) {
    const std::span<T> tail = out.last(kNormalBlock);
    draw(tail);
    box_muller(tail, static_cast<T>(mean), static_cast<T>(std));
  }
}

void Rng::normal(std::span<float> out, double mean, double std) { fill_normal(out, mean, std); }
void Rng::normal(std::span<double> out, double mean, double std) { fill_normal(out, mean, std); }

uint64_t Rng::take_blocks(uint64_t count) {
  check(kind_ == Kind::philox, "[rng] only Philox has blocks to set aside");
  next_ = kBlockWords;
  return std::exchange(blocks_, blocks_ + count);
}

int64_t Rng::randint(int64_t n) {
  check(n > 0, "[randint] needs n > 0, not {}", n);
  const auto range = static_cast<uint64_t>(n);
  const bool narrow = kind_ == Kind::philox || narrow_randint_;
  const uint64_t draw = range < uint64_t{1} << (narrow ? 32 : 28) ? next32() : next64();
  return static_cast<int64_t>(draw % range);
}

std::vector<int64_t> Rng::randperm(int64_t n) {
  check(n >= 0, "[randperm] needs n >= 0, not {}", n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (n < int64_t{UINT32_MAX / 20}) {
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      std::swap(order[i], order[i + next32() % (order.size() - i)]);
    }
  } else {  // 32 bits would be visibly skewed here; PyTorch uses 64, and shuffles from the other
            // end
    for (size_t i = 0; i < order.size(); ++i) {
      std::swap(order[i], order[next64() % (i + 1)]);
    }
  }
  return order;
}

int64_t Rng::multinomial(std::span<const float> weights) {
  check(!weights.empty(), "[multinomial] there is nothing to draw from");
  bool any_positive = false;
  for (size_t i = 0; i < weights.size(); ++i) {
    check(weights[i] >= 0.0F && std::isfinite(weights[i]),
          "[multinomial] weight {} at index {} is not a finite number >= 0", weights[i], i);
    any_positive |= weights[i] > 0.0F;
  }
  check(any_positive, "[multinomial] all {} weights are 0", weights.size());
  // weight / (exponential variate) is largest at an index with a probability proportional to its
  // weight.
  constexpr double kNear = 1 - 1e-5;  // for what roundings of the score may add
  int64_t best = -1;
  float best_score = 0.0F;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double u = uniform_double();
    // The variate is at least u, so most weights are too small without a logarithm.
    if (static_cast<double>(weights[i]) <= kNear * u * static_cast<double>(best_score)) continue;
    const float score = weights[i] / static_cast<float>(-std::log1p(-u));
    if (best < 0 || score > best_score) {
      best = static_cast<int64_t>(i);
      best_score = score;
    }
  }
  return best;
}

std::string Rng::state() const {
  const std::string_view torch = narrow_randint_ ? kOldTorchState : kTorchState;
  std::string text = fmt::format("{} {} {} {} ", kind_ == Kind::torch ? torch : kPhiloxState, seed_,
                                 blocks_, next_);
  if (spare_normal_) {
    text += fmt::format("{:016x}", std::bit_cast<uint64_t>(*spare_normal_));
  } else {
    text += '-';
  }
  if (kind_ == Kind::torch) {
    text += ' ';
    for (const uint32_t word : words_) {
      text += fmt::format("{:08x}", word);
    }
  }
  return text;
}

void Rng::set_state(std::string_view saved) {
  std::string_view text = saved;
  const std::string_view kind = take_word(text);
  check(kind == kTorchState || kind == kOldTorchState || kind == kPhiloxState,
        "[rng] saved state: unknown kind '{}'", kind.substr(0, 20));
  Rng loaded(parse_number<uint64_t>(take_word(text), 10, "seed"),
             kind == kPhiloxState ? Kind::philox : Kind::torch);
  loaded.narrow_randint_ = kind == kOldTorchState;
  loaded.blocks_ = parse_number<uint64_t>(take_word(text), 10, "block count");
  loaded.next_ = parse_number<uint32_t>(take_word(text), 10, "position");
  check(loaded.next_ <= loaded.words_per_refill(), "[rng] saved state: position {} is beyond {}",
        loaded.next_, loaded.words_per_refill());
  if (const std::string_view spare = take_word(text); spare != "-") {
    const auto value = std::bit_cast<double>(parse_number<uint64_t>(spare, 16, "spare number"));
    check(std::isfinite(value), "[rng] saved state: the spare number is not finite");
    loaded.spare_normal_ = value;
  }
  if (loaded.kind_ == Kind::torch) {
    loaded.words_ = parse_words<kStateWords>(take_word(text));
  } else if (loaded.next_ < kBlockWords) {
    check(loaded.blocks_ > 0, "[rng] saved state: position {} in a block that was never drawn",
          loaded.next_);
    const auto block = loaded.philox_block(loaded.blocks_ - 1);
    std::copy(block.begin(), block.end(), loaded.words_.begin());
  }
  check(loaded.state() == saved, "[rng] saved state: not in the form that state() writes");
  *this = loaded;
}

}  // namespace tapegrad
