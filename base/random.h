#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011):
// four random words as a function of a counter and a key alone.
using PhiloxKey = std::array<uint32_t, 2>;
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, PhiloxKey key);
// The parts of philox4x32, for code that computes many blocks at once: ten rounds, of which each
// uses the key that follows the previous round's key.
inline constexpr int kPhiloxRounds = 10;
inline void philox_round(PhiloxKey key, uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3) {
  const uint64_t product0 = uint64_t{0xD2511F53U} * c0;
  const uint64_t product1 = uint64_t{0xCD9E8D57U} * c2;
  c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key[0];
  c1 = static_cast<uint32_t>(product1);
  c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key[1];
  c3 = static_cast<uint32_t>(product0);
}
inline PhiloxKey next_philox_key(PhiloxKey key) {
  return {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
}
// The key of a generator with this seed.
inline PhiloxKey philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// A random number generator; copies continue the same stream independently.
//
// Kind::torch is MT19937 (Matsumoto, Nishimura 1998) and turns its draws into numbers as PyTorch
// does on a CPU (the build without MKL), so equal seeds and equal calls give the numbers of PyTorch
// 2.14. Each function consumes exactly as many random numbers as the PyTorch call named beside it.
// Kind::philox is counter-based: any part of its stream can be computed by itself. So dropout draws
// from it in parallel, and computes its mask again in backward (keep_mask.h). Its numbers have no
// counterpart in PyTorch.
class Rng {
 public:
  enum class Kind { torch, philox };

  // Kind::torch uses the low 32 bits of the seed only, as torch.manual_seed does.
  explicit Rng(uint64_t seed, Kind kind = Kind::torch);

  Kind kind() const { return kind_; }
  uint64_t seed() const { return seed_; }

  uint32_t next32();
  uint64_t next64();  // two 32-bit draws, the first one on top

  float uniform();          // [0, 1), 24 random bits: torch.rand(()), one 32-bit draw
  double uniform_double();  // [0, 1), 53 random bits: the same in float64, one 64-bit draw

  // Tensor.uniform_(from, to): u·(to − from) + from, rounded once, with the bounds rounded to the
  // type of `out` first. Needs from <= to, both finite.
  void uniform(std::span<float> out, double from, double to);
  void uniform(std::span<double> out, double from, double to);

  // Tensor.normal_(mean, std), std >= 0. Fewer than 16 numbers are drawn one by one in double; the
  // second number of a Box–Muller pair is kept for the next such call. 16 or more numbers are
  // transformed in blocks of 16; if the last block is incomplete, the last 16 numbers are drawn
  // again. In float32 the block form follows PyTorch's vector path (Cephes' logf, sinf and cosf in
  // fused arithmetic) to the last bit.
  void normal(std::span<float> out, double mean, double std);
  void normal(std::span<double> out, double mean, double std);

  // [0, n), n > 0: torch.randint(n, ()). From n = 2²⁸ on, a draw of Kind::torch takes 64 bits; from
  // 2³² on, in PyTorch 2.6, and in a generator with a state that tapegrad saved before it followed
  // 2.14.
  int64_t randint(int64_t n);

  // A shuffled 0, 1, … n − 1: torch.randperm(n).
  std::vector<int64_t> randperm(int64_t n);

  // An index drawn in proportion to its weight: torch.multinomial(weights, 1). The weights need not
  // sum to 1, but must be finite, not negative and not all 0.
  int64_t multinomial(std::span<const float> weights);

  // Kind::philox only: reserves the next `count` whole blocks of four words and returns the counter
  // of the first. The generator continues behind them.
  uint64_t take_blocks(uint64_t count);

  // The complete state, which determines all later draws, as one line of ASCII without quotes or
  // backslashes. set_state() restores the kind, too, and of Kind::torch the rule of randint(). Text
  // that state() cannot have written is an Error and leaves the generator as it was.
  std::string state() const;
  void set_state(std::string_view saved);

 private:
  static constexpr uint32_t kStateWords = 624;  // MT19937's words
  static constexpr uint32_t kBlockWords = 4;    // Philox' words

  uint32_t words_per_refill() const { return kind_ == Kind::torch ? kStateWords : kBlockWords; }
  void refill();
  std::array<uint32_t, 4> philox_block(uint64_t index) const;
  void draw(std::span<float> out);
  void draw(std::span<double> out);
  template <class T>
  void fill_uniform(std::span<T> out, double from, double to);
  template <class T>
  void fill_normal(std::span<T> out, double mean, double std);
  double next_normal();

  Kind kind_;
  bool narrow_randint_ = false;  // below 2³², 32 bits make an integer: PyTorch 2.6's rule
  uint64_t seed_;
  uint64_t blocks_ = 0;  // Philox: blocks drawn so far, which is the next block's counter
  uint32_t next_ = 0;    // index of the first unused word in words_
  std::array<uint32_t, kStateWords> words_{};  // MT19937's state, or Philox' block at the front
  std::optional<double> spare_normal_;         // the second value of a Box–Muller pair
};

inline constexpr std::string_view kRngNames[] = {"torch", "philox"};
inline std::span<const std::string_view> names_of(Rng::Kind) { return kRngNames; }

inline uint32_t Rng::next32() {
  if (next_ == words_per_refill()) {
    refill();
  }
  uint32_t word = words_[next_++];
  if (kind_ == Kind::torch) {  // MT19937's tempering
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    word ^= word >> 18;
  }
  return word;
}

inline uint64_t Rng::next64() {
  const uint64_t high = next32();
  return high << 32 | next32();
}

inline float Rng::uniform() { return static_cast<float>(next32() & 0xffffffU) * 0x1p-24F; }

inline double Rng::uniform_double() {
  return static_cast<double>(next64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

}  // namespace tapegrad
