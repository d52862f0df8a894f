#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tapegrad::quantized {
namespace {

// Sixteen lanes in a register of AVX-512 (F, BW, VL, DQ, VNNI): see vector_plain.h.
struct Avx512 {
  static constexpr int kColumns = 8, kPanels = 2, kSums = 16;

  using F = __m512;
  using I = __m512i;
  using B = __m512i;

  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, F f) { _mm512_storeu_ps(to, f); }
  static F add(F x, F y) { return _mm512_add_ps(x, y); }
  static F mul(F x, F y) { return _mm512_mul_ps(x, y); }
  static F fma(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }
  static F fused(F x, F y, F z) { return fma(x, y, z); }

  static F f16s(const std::uint8_t* from) { return _mm512_cvtph_ps(half(from)); }
  static F bf16s(const std::uint8_t* from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half(from)), 16));
  }
  static F u8s(const std::uint8_t* from) { return floats(_mm512_cvtepu8_epi32(quarter(from))); }
  static I s8s(const std::uint8_t* from) { return _mm512_cvtepi8_epi32(quarter(from)); }

  template <int At>
  static I u4s(const std::uint8_t* from) {
    return low_nibbles(_mm512_srli_epi32(_mm512_cvtepu8_epi32(quarter(from)), At));
  }

  static B bytes(const std::uint8_t* from) { return _mm512_loadu_si512(from); }
  static B low_nibbles(B x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
  static B high_nibbles(B x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
  template <int At, int Bits, int To = 4>
  static B field(B x) {
    const B mask = _mm512_set1_epi8(((1 << Bits) - 1) << To);
    if constexpr (At <= To) {
      return _mm512_and_si512(_mm512_slli_epi16(x, To - At), mask);
    } else {
      return _mm512_and_si512(_mm512_srli_epi16(x, At - To), mask);
    }
  }
  static B lookup(const std::int8_t* sixteen, B x) {
    const auto* const table = reinterpret_cast<const std::uint8_t*>(sixteen);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(quarter(table)), x);
  }
  static B either(B x, B y) { return _mm512_or_si512(x, y); }

  static I ints(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I add(I x, I y) { return _mm512_add_epi32(x, y); }
  static I mul(I x, I y) { return _mm512_mullo_epi32(x, y); }
  static F floats(I x) { return _mm512_cvtepi32_ps(x); }

  static I dot(I sum, B w, const std::int8_t* x) {
    return _mm512_dpbusd_epi32(sum, w, broadcast(x));
  }
  // The instruction takes bytes w without a sign: Σ w·x = Σ (w + 128)·x − 128·Σ x.
  static I signed_begin(std::int32_t sum_of_x) { return ints(-128 * sum_of_x); }
  static I signed_dot(I sum, B w, const std::int8_t* x) {
    return dot(sum, _mm512_xor_si512(w, _mm512_set1_epi8(-128)), x);
  }

 private:
  static __m256i half(const std::uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static __m128i quarter(const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static __m512i broadcast(const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }
};

}  // namespace
}  // namespace tapegrad::quantized
