#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

// How a cache stores keys and values.
enum class CacheType {
  f32,   // as the model computes them: in f64, too
  f16,   // half of the bytes of f32
  q8_0,  // 8 bits and, for each 32 channels, an f16 that scales them, as ggml's: 0.27 of the bytes
};
inline constexpr std::array<std::string_view, 3> kCacheTypeNames = {"f32", "f16", "q8_0"};
inline std::span<const std::string_view> names_of(CacheType) { return kCacheTypeNames; }
// Bytes of a key, or of a value, of so many channels of f32.
std::int64_t bytes_of(CacheType type, std::int64_t channels);

// Keys and values of up to kPositions positions of a sequence that follow each other. Values lie
// one behind the other. Of keys, kPanel positions lie side by side, channel by channel, so that a
// query meets kPanel keys at once.
class CachedPage {
 public:
  static constexpr std::int64_t kPositions = 256, kPanel = 16;
  static constexpr std::int64_t kBlock = 32;  // channels that share a scale

  // For `capacity` positions, rounded up to kPanel, of so many channels (of all heads). Error if
  // there are more than kPositions; if a type other than f32 is to store f64; if q8_0 is to store
  // channels that are no multiple of kBlock.
  CachedPage(std::int64_t channels, std::int64_t capacity, DType dtype, CacheType type);

  std::int64_t channels() const { return channels_; }
  std::int64_t capacity() const { return capacity_; }
  DType dtype() const { return dtype_; }
  CacheType type() const { return type_; }
  std::size_t bytes() const { return bytes_; }

  // Stores row `row`, and those behind it, of keys and values (rows, C) at `count` positions from
  // `at` on. Error if a live tape tracks keys or values.
  void store(std::int64_t at, std::int64_t count, const Tensor& keys, const Tensor& values,
             std::int64_t row);
  // The keys and the values of `count` positions from `at` on, as attention reads them, become
  // rows of keys and values (rows, C) from `row` on.
  void load(std::int64_t at, std::int64_t count, Tensor& keys, Tensor& values,
            std::int64_t row) const;
  // A page of this capacity with the first `count` positions of this one.
  std::shared_ptr<CachedPage> copy(std::int64_t count, std::int64_t capacity) const;

  // The views that attention() reads. T is the dtype's.

  // The keys (channels, kPanel) of the panel that has position `at`, for channels from `channel`
  // on. They are in the page, or become what `scratch` holds.
  template <class T>
  const T* panel(std::int64_t at, std::int64_t channel, std::int64_t channels, T* scratch) const;
  // The values of `count` positions from `at` on, rows of `channels` channels from `channel` on.
  template <class T>
  struct Rows {
    const T* data;
    std::int64_t row;  // elements from one to the next
  };
  template <class T>
  Rows<T> values(std::int64_t at, std::int64_t count, std::int64_t channel, std::int64_t channels,
                 T* scratch) const;

  // The same in place, as they are stored: E is T for f32, f16, or std::int8_t for q8_0, which has
  // scales: of a panel, kPanel of them for each block of channels; of values, one for each block,
  // and those of the next position `scale_row` behind.
  template <class E>
  struct Stored {
    const E* data;
    std::int64_t row = 0;
    const f16* scales = nullptr;
    std::int64_t scale_row = 0;
  };
  template <class E>
  Stored<E> stored_panel(std::int64_t at, std::int64_t channel) const {
    const std::int64_t first = at / kPanel * channels_ + channel;
    return {part<const E>(0) + first * kPanel, kPanel, scales(key_scales_, first / kBlock * kPanel),
            0};
  }
  template <class E>
  Stored<E> stored_values(std::int64_t at, std::int64_t channel) const {
    const std::int64_t first = at * channels_ + channel;
    return {part<const E>(values_) + first, channels_, scales(value_scales_, first / kBlock),
            channels_ / kBlock};
  }

 private:
  template <class E>
  E* part(std::size_t from) const {
    return reinterpret_cast<E*>(static_cast<std::byte*>(memory_->data()) + from);
  }
  const f16* scales(std::size_t from, std::int64_t index) const {
    return type_ == CacheType::q8_0 ? part<const f16>(from) + index : nullptr;
  }

  std::int64_t channels_, capacity_;
  DType dtype_;
  CacheType type_;
  // Where the values begin in memory, and the scales of keys (panels, C / kBlock, kPanel) and of
  // values (capacity, C / kBlock).
  std::size_t values_, key_scales_, value_scales_, bytes_;
  std::unique_ptr<Scratch> memory_;
};

// The keys and values of a sequence so far, its newest positions included: page i has positions
// from i·kPositions on. Pages may belong to several sequences.
struct CachedKeys {
  std::span<const std::shared_ptr<CachedPage>> pages;
  std::int64_t length = 0;  // positions; those behind them are not read
};

}  // namespace tapegrad
