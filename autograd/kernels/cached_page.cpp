#include "tapegrad/autograd/kernels/cached_page.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/half.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace tapegrad {
namespace {

constexpr std::int64_t kBlock = CachedPage::kBlock;

std::size_t element_bytes(CacheType type, DType dtype) {
  return type == CacheType::f32 ? size_of(dtype) : type == CacheType::f16 ? 2 : 1;
}

// How many scales a position has.
std::int64_t scales_of(CacheType type, std::int64_t channels) {
  return type == CacheType::q8_0 ? channels / kBlock : 0;
}

// Rounds kBlock channels to 8 bits, as ggml's q8_0 does: they are scale·q. One that is not finite
// makes them NaN, all of them.
f16 round_block(const float* x, std::int8_t* q) {
  float most = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(x[i]));
  if (!std::all_of(x, x + kBlock, [](float c) { return std::isfinite(c); })) {
    std::fill_n(q, kBlock, std::int8_t{});
    return to_f16(std::nanf(""));
  }
  // Of a smaller scale, the inverse would be infinite.
  const float scale = most / 127, inverse = scale < 0x1p-126F ? 0 : 1 / scale;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    q[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
  }
  return to_f16(scale);
}

// As to_float; with F16C where the program is compiled for it.
template <class T>
void widen(const f16* from, std::int64_t n, T* to) {
  std::int64_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<T, float>) {
    for (; i + 8 <= n; i += 8) {
      const auto* const eight = reinterpret_cast<const __m128i*>(from + i);
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(eight)));
    }
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<T>(to_float(from[i]));
}

// The elements of a row, one at a time: to(channel, element).
template <class Element, class T, class To>
void encode(const T* x, std::int64_t channels, const To& to) {
  for (std::int64_t c = 0; c < channels; ++c) {
    if constexpr (std::is_same_v<Element, f16>) {
      to(c, to_f16(static_cast<float>(x[c])));
    } else {
      to(c, x[c]);
    }
  }
}

}  // namespace

std::int64_t bytes_of(CacheType type, std::int64_t channels) {
  return channels * static_cast<std::int64_t>(element_bytes(type, DType::f32)) +
         scales_of(type, channels) * static_cast<std::int64_t>(sizeof(f16));
}

CachedPage::CachedPage(std::int64_t channels, std::int64_t capacity, DType dtype, CacheType type)
    : channels_(channels),
      capacity_((capacity + kPanel - 1) / kPanel * kPanel),
      dtype_(dtype),
      type_(type) {
  check(capacity_ <= kPositions, "[cached_page] {} positions are more than {}", capacity,
        kPositions);
  check(is_float(dtype) && (dtype == DType::f32 || type == CacheType::f32),
        "[cached_page] keys of {} cannot be stored as {}", name_of(dtype),
        kCacheTypeNames[static_cast<std::size_t>(type)]);
  check(type != CacheType::q8_0 || channels % kBlock == 0,
        "[cached_page] q8_0 needs channels of keys that are a multiple of {}, not {}; f16 does not",
        kBlock, channels);
  const auto elements = static_cast<std::size_t>(channels_ * capacity_);
  const auto scales = static_cast<std::size_t>(scales_of(type, channels) * capacity_) * sizeof(f16);
  values_ = elements * element_bytes(type, dtype);
  key_scales_ = 2 * values_;
  value_scales_ = key_scales_ + scales;
  bytes_ = value_scales_ + scales;
  memory_ = std::make_unique<Scratch>(bytes_);
  // A query meets whole panels, and nobody uses what it makes of positions that are not there.
  std::fill_n(part<std::byte>(0), bytes_, std::byte{});
}

void CachedPage::store(std::int64_t at, std::int64_t count, const Tensor& keys,
                       const Tensor& values, std::int64_t row) {
  check_untracked("CachedPage::store", "keys", keys);
  check_untracked("CachedPage::store", "values", values);
  const auto store_as = [&](auto element, auto number) {
    using E = decltype(element);
    using T = decltype(number);
    for (std::int64_t i = 0; i < count; ++i, ++at) {
      E* const panel = part<E>(0) + at / kPanel * channels_ * kPanel + at % kPanel;
      encode<E>(keys.data<T>() + (row + i) * channels_, channels_,
                [&](std::int64_t c, E x) { panel[c * kPanel] = x; });
      E* const to = part<E>(values_) + at * channels_;
      encode<E>(values.data<T>() + (row + i) * channels_, channels_,
                [&](std::int64_t c, E x) { to[c] = x; });
    }
  };
  if (type_ == CacheType::f16) return store_as(f16(), float());
  if (type_ == CacheType::f32) {
    return dispatch(dtype_, [&](auto zero) { store_as(zero, zero); });
  }
  const std::int64_t blocks = channels_ / kBlock;
  for (std::int64_t i = 0; i < count; ++i, ++at) {
    const float* const key = keys.data<float>() + (row + i) * channels_;
    const float* const value = values.data<float>() + (row + i) * channels_;
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::int8_t q[kBlock];
      part<f16>(key_scales_)[(at / kPanel * blocks + b) * kPanel + at % kPanel] =
          round_block(key + b * kBlock, q);
      std::int8_t* const panel =
          part<std::int8_t>(0) + (at / kPanel * channels_ + b * kBlock) * kPanel + at % kPanel;
      for (std::int64_t c = 0; c < kBlock; ++c) panel[c * kPanel] = q[c];
      part<f16>(value_scales_)[at * blocks + b] =
          round_block(value + b * kBlock, part<std::int8_t>(values_) + at * channels_ + b * kBlock);
    }
  }
}

template <class T>
const T* CachedPage::panel(std::int64_t at, std::int64_t channel, std::int64_t channels,
                           T* scratch) const {
  const std::int64_t index = at / kPanel, first = (index * channels_ + channel) * kPanel;
  if (type_ == CacheType::f32) return part<T>(0) + first;
  const std::int64_t count = channels * kPanel;
  if (type_ == CacheType::f16) {
    const f16* const from = part<f16>(0) + first;
    widen(from, count, scratch);
    return scratch;
  }
  const std::int8_t* const from = part<std::int8_t>(0) + first;
  const f16* const scales = part<f16>(key_scales_) + index * (channels_ / kBlock) * kPanel;
  float by[kPanel];
  for (std::int64_t c = 0; c < channels; ++c) {
    if (c == 0 || (channel + c) % kBlock == 0) {
      const f16* const of_block = scales + (channel + c) / kBlock * kPanel;
      for (std::int64_t i = 0; i < kPanel; ++i) by[i] = to_float(of_block[i]);
    }
    for (std::int64_t i = 0; i < kPanel; ++i) {
      scratch[c * kPanel + i] = static_cast<T>(static_cast<float>(from[c * kPanel + i]) * by[i]);
    }
  }
  return scratch;
}

template <class T>
CachedPage::Rows<T> CachedPage::values(std::int64_t at, std::int64_t count, std::int64_t channel,
                                       std::int64_t channels, T* scratch) const {
  const std::int64_t first = at * channels_ + channel;
  if (type_ == CacheType::f32) return {part<T>(values_) + first, channels_};
  for (std::int64_t i = 0; i < count; ++i) {
    T* const to = scratch + i * channels;
    if (type_ == CacheType::f16) {
      const f16* const from = part<f16>(values_) + first + i * channels_;
      widen(from, channels, to);
      continue;
    }
    const std::int8_t* const from = part<std::int8_t>(values_) + first + i * channels_;
    const f16* const scales = part<f16>(value_scales_) + (at + i) * (channels_ / kBlock);
    for (std::int64_t c = 0, end = 0; c < channels; c = end) {
      end = std::min(channels, ((channel + c) / kBlock + 1) * kBlock - channel);
      const float by = to_float(scales[(channel + c) / kBlock]);
      for (std::int64_t j = c; j < end; ++j)
        to[j] = static_cast<T>(static_cast<float>(from[j]) * by);
    }
  }
  return {scratch, channels};
}

template const float* CachedPage::panel(std::int64_t, std::int64_t, std::int64_t, float*) const;
template const double* CachedPage::panel(std::int64_t, std::int64_t, std::int64_t, double*) const;
template CachedPage::Rows<float> CachedPage::values(std::int64_t, std::int64_t, std::int64_t,
                                                    std::int64_t, float*) const;
template CachedPage::Rows<double> CachedPage::values(std::int64_t, std::int64_t, std::int64_t,
                                                     std::int64_t, double*) const;

void CachedPage::load(std::int64_t at, std::int64_t count, Tensor& keys, Tensor& values,
                      std::int64_t row) const {
  dispatch(dtype_, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> scratch(static_cast<std::size_t>(channels_ * kPanel));
    for (std::int64_t i = 0; i < count; ++i) {
      const T* const panel = this->panel<T>(at + i, 0, channels_, scratch.data());
      T* const to = keys.mutable_data<T>() + (row + i) * channels_;
      for (std::int64_t c = 0; c < channels_; ++c) to[c] = panel[c * kPanel + (at + i) % kPanel];
      std::copy_n(this->values<T>(at + i, 1, 0, channels_, scratch.data()).data, channels_,
                  values.mutable_data<T>() + (row + i) * channels_);
    }
  });
}

std::shared_ptr<CachedPage> CachedPage::copy(std::int64_t count, std::int64_t capacity) const {
  auto to = std::make_shared<CachedPage>(channels_, capacity, dtype_, type_);
  const std::int64_t panels = (count + kPanel - 1) / kPanel;
  const auto element = static_cast<std::int64_t>(element_bytes(type_, dtype_));
  const std::int64_t scales = scales_of(type_, channels_) * static_cast<std::int64_t>(sizeof(f16));
  const auto copy_part = [&](std::size_t from, std::size_t into, std::int64_t bytes) {
    std::copy_n(part<std::byte>(from), bytes, to->part<std::byte>(into));
  };
  copy_part(0, 0, panels * kPanel * channels_ * element);
  copy_part(values_, to->values_, count * channels_ * element);
  copy_part(key_scales_, to->key_scales_, panels * kPanel * scales);
  copy_part(value_scales_, to->value_scales_, count * scales);
  return to;
}

}  // namespace tapegrad
