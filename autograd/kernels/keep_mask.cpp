#include "tapegrad/autograd/kernels/keep_mask.h"

#include <cmath>
#include <cstring>

#include "tapegrad/autograd/base/dry_run.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kLanes = 16;  // Philox blocks that are made side by side, as vectors

// The decisions of the blocks from `block` on, one byte for each word.
void philox_decisions(std::uint64_t block, std::uint64_t seed, std::uint32_t last_kept,
                      std::uint8_t (&keep)[4 * kLanes]) {
  std::uint32_t c[4][kLanes] = {}, packed[kLanes];
  for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
    c[0][lane] = static_cast<std::uint32_t>(block + lane);
    c[1][lane] = static_cast<std::uint32_t>((block + lane) >> 32);
  }
  PhiloxKey key = philox_key(seed);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      philox_round(key, c[0][i], c[1][i], c[2][i], c[3][i]);
    }
    key = next_philox_key(key);
  }
  for (std::int64_t i = 0; i < kLanes; ++i) {
    packed[i] = static_cast<std::uint32_t>(c[0][i] <= last_kept) |
                static_cast<std::uint32_t>(c[1][i] <= last_kept) << 8 |
                static_cast<std::uint32_t>(c[2][i] <= last_kept) << 16 |
                static_cast<std::uint32_t>(c[3][i] <= last_kept) << 24;
  }
  for (std::int64_t i = 0; i < kLanes; ++i) {
    for (int word = 0; word < 4; ++word) {
      keep[4 * i + word] = static_cast<std::uint8_t>(packed[i] >> (8 * word));
    }
  }
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
  if (in_dry_run()) return;
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
  // Words below (1 − p)·2³² are kept.
  const double words = std::max(1.0, std::round((1 - p_) * 0x1p32));
  const auto last_kept = static_cast<std::uint32_t>(words - 1);
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

Tensor KeepMask::to_tensor(const Shape& shape) const {
  Tensor mask = Tensor::empty(shape, DType::u8);
  read(0, {mask.mutable_data<std::uint8_t>(), static_cast<std::size_t>(mask.numel())});
  return mask;
}

}  // namespace tapegrad
