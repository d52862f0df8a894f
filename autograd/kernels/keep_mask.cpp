#include "tapegrad/autograd/kernels/keep_mask.h"

#include <cmath>
#include <cstring>

#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kLanes = 16;  // Philox blocks that are made side by side, as vectors

// The words of the blocks `block`, `block` + stride, …
void philox_words(std::uint64_t block, std::uint64_t stride, std::uint64_t seed,
                  std::uint32_t (&words)[4 * kLanes]) {
  std::uint32_t c[4][kLanes] = {};  // not `words`, of which the compiler knows too little
  for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
    c[0][lane] = static_cast<std::uint32_t>(block + lane * stride);
    c[1][lane] = static_cast<std::uint32_t>((block + lane * stride) >> 32);
  }
  PhiloxKey key = philox_key(seed);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      philox_round(key, c[0][i], c[1][i], c[2][i], c[3][i]);
    }
    key = next_philox_key(key);
  }
  std::memcpy(words, c, sizeof(c));
}

// The decisions of the blocks from `block` on, one byte for each word.
void philox_decisions(std::uint64_t block, std::uint64_t seed, std::uint32_t last_kept,
                      std::uint8_t (&keep)[4 * kLanes]) {
  std::uint32_t words[4 * kLanes], packed[kLanes];
  philox_words(block, 1, seed, words);
  for (std::int64_t i = 0; i < kLanes; ++i) {
    packed[i] = static_cast<std::uint32_t>(words[i] <= last_kept) |
                static_cast<std::uint32_t>(words[kLanes + i] <= last_kept) << 8 |
                static_cast<std::uint32_t>(words[2 * kLanes + i] <= last_kept) << 16 |
                static_cast<std::uint32_t>(words[3 * kLanes + i] <= last_kept) << 24;
  }
  for (std::int64_t i = 0; i < kLanes; ++i) {
    for (int word = 0; word < 4; ++word) {
      keep[4 * i + word] = static_cast<std::uint8_t>(packed[i] >> (8 * word));
    }
  }
}

// Words below (1 − p)·2³² are kept.
std::uint32_t last_kept_word(double p) {
  return static_cast<std::uint32_t>(std::max(1.0, std::round((1 - p) * 0x1p32)) - 1);
}

}  // namespace

KeepMask::KeepMask(Rng& rng, std::int64_t n, double p) : p_(p) {
  check(p >= 0 && p <= 1, "[dropout] the probability must be from 0 to 1, not {}", p);
  if (p == 0 || p == 1 || n == 0) return;
  if (rng.kind() == Rng::Kind::philox) {
    seed_ = rng.seed();
    first_block_ = rng.take_blocks(static_cast<std::uint64_t>(n + 3) / 4);
    return;
  }
  bits_ = Tensor::zeros({(n + 7) / 8}, DType::u8);
  if (in_dry_run()) {
    for (std::int64_t i = 0; i < n && dry_run_draws(); ++i) rng.uniform_double();
    return;
  }
  auto* bits = bits_.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    const bool kept = rng.uniform_double() < 1 - p;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | static_cast<int>(kept) << (i % 8));
  }
}

void KeepMask::read(std::int64_t first, std::span<std::uint8_t> keep) const {
  if (p_ == 0 || p_ == 1) {
    std::fill(keep.begin(), keep.end(), static_cast<std::uint8_t>(p_ == 0));
    return;
  }
  const auto n = static_cast<std::int64_t>(keep.size());
  if (bits_.defined()) {
    const auto* bits = bits_.data<std::uint8_t>();
    for (std::int64_t i = first; i < first + n; ++i) {
      keep[static_cast<std::size_t>(i - first)] = bits[i / 8] >> (i % 8) & 1;
    }
    return;
  }
  const std::uint32_t last_kept = last_kept_word(p_);
  std::uint8_t made[4 * kLanes];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t element = first + done, skipped = element % 4;
    philox_decisions(first_block_ + static_cast<std::uint64_t>(element / 4), seed_, last_kept,
                     made);
    const std::int64_t count = std::min(4 * kLanes - skipped, n - done);
    std::memcpy(keep.data() + done, made + skipped, static_cast<std::size_t>(count));
    done += count;
  }
}

void KeepMask::read_blocks(std::int64_t first, std::int64_t stride,
                           std::uint32_t (&keep)[kWords * kRows]) const {
  static_assert(kRows == kLanes && kWords == 4);
  static_assert(kStretch + kWords - 1 <= 4 * kLanes);
  philox_words(first_block_ + static_cast<std::uint64_t>(first / kWords),
               static_cast<std::uint64_t>(stride / kWords), seed_, keep);
  const std::uint32_t last_kept = last_kept_word(p_);
  for (std::uint32_t& word : keep) word = word <= last_kept ? 1 : 0;
}

Tensor KeepMask::to_tensor(const Shape& shape) const {
  Tensor mask = Tensor::empty(shape, DType::u8);
  read(0, {mask.mutable_data<std::uint8_t>(), static_cast<std::size_t>(mask.numel())});
  return mask;
}

}  // namespace tapegrad
