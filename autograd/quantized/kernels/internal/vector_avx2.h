#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tapegrad::quantized {
namespace {

// Sixteen lanes in two registers of AVX2, with FMA and F16C: see vector_plain.h.
struct Avx2 {
  static constexpr int kColumns = 4, kPanels = 1, kSums = 4;

  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  using B = I;

  static F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static void store(float* to, const F& f) {
    _mm256_storeu_ps(to, f.a);
    _mm256_storeu_ps(to + 8, f.b);
  }
  static F add(const F& x, const F& y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  static F mul(const F& x, const F& y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  static F fma(const F& x, const F& y, const F& z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  static F fused(const F& x, const F& y, const F& z) { return fma(x, y, z); }

  static F f16s(const std::uint8_t* from) {
    return {_mm256_cvtph_ps(half(from)), _mm256_cvtph_ps(half(from + 16))};
  }
  static F bf16s(const std::uint8_t* from) {
    const auto widened = [](__m128i x) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    };
    return {widened(half(from)), widened(half(from + 16))};
  }
  static F u8s(const std::uint8_t* from) {
    const __m128i x = half(from);
    return floats({_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))});
  }
  static I s8s(const std::uint8_t* from) {
    const __m128i x = half(from);
    return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
  }

  template <int At>
  static I u4s(const std::uint8_t* from) {
    const __m128i x = half(from);
    const B wide = {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
    return low_nibbles({_mm256_srli_epi32(wide.a, At), _mm256_srli_epi32(wide.b, At)});
  }

  static B bytes(const std::uint8_t* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32))};
  }
  static B low_nibbles(const B& x) { return both(x, _mm256_set1_epi8(15)); }
  static B high_nibbles(const B& x) {
    return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
  }
  template <int At, int Bits, int To = 4>
  static B field(const B& x) {
    const __m256i mask = _mm256_set1_epi8(((1 << Bits) - 1) << To);
    if constexpr (At <= To) {
      return both({_mm256_slli_epi16(x.a, To - At), _mm256_slli_epi16(x.b, To - At)}, mask);
    } else {
      return both({_mm256_srli_epi16(x.a, At - To), _mm256_srli_epi16(x.b, At - To)}, mask);
    }
  }
  static B lookup(const std::int8_t* sixteen, const B& x) {
    const __m256i table =
        _mm256_broadcastsi128_si256(half(reinterpret_cast<const std::uint8_t*>(sixteen)));
    return {_mm256_shuffle_epi8(table, x.a), _mm256_shuffle_epi8(table, x.b)};
  }
  static B either(const B& x, const B& y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
  }

  static I ints(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I add(const I& x, const I& y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  static I mul(const I& x, const I& y) {
    return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
  }
  static F floats(const I& x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

  // Pairs are added in 16 bits, which 2·127·127 fits.
  static I dot(const I& sum, const B& w, const std::int8_t* x) {
    const __m256i four = broadcast(x);
    return add(sum,
               {fours(_mm256_maddubs_epi16(w.a, four)), fours(_mm256_maddubs_epi16(w.b, four))});
  }
  // |w|·(x with the sign of w): 2·128·127 fits, too.
  static I signed_begin(std::int32_t) { return ints(0); }
  static I signed_dot(const I& sum, const B& w, const std::int8_t* x) {
    const __m256i four = broadcast(x);
    const auto pairs = [&](__m256i v) {
      return fours(_mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(four, v)));
    };
    return add(sum, {pairs(w.a), pairs(w.b)});
  }

 private:
  static __m128i half(const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static B both(const B& x, __m256i mask) {
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
  }
  static __m256i broadcast(const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
  }
  static __m256i fours(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
};

}  // namespace
}  // namespace tapegrad::quantized
