#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/base/half.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tapegrad {

// Fills `to`, a vector of T, with as many numbers from `from` on, exactly. Where the program is
// compiled for processors that widen f16 or 8 bits, they go from memory into the register.
template <class T, class Vector>
inline void load_lanes(const T* from, Vector& to) {
  std::memcpy(&to, from, sizeof to);
}

template <class T, class Vector>
inline void load_lanes(const f16* from, Vector& to) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to = reinterpret_cast<Vector>(_mm512_maskz_cvtph_ps(0xffff, bits));
    return;
  }
#endif
#if defined(__F16C__)
  if constexpr (kLanes % 8 == 0) {
    typedef float Eight __attribute__((vector_size(32)));
    const auto eight = [&](int i) {
      const auto* const bits = reinterpret_cast<const __m128i*>(from + 8 * i);
      return reinterpret_cast<Eight>(_mm256_cvtph_ps(_mm_loadu_si128(bits)));
    };
    if constexpr (kLanes == 8) {
      to = eight(0);
    } else {
      to = __builtin_shufflevector(eight(0), eight(1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                   14, 15);
    }
    return;
  }
#endif
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = to_float(from[i]);
  std::memcpy(&to, lanes, sizeof to);
}

template <class T, class Vector>
inline void load_lanes(const std::int8_t* from, Vector& to) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m512i numbers = _mm512_maskz_cvtepi8_epi32(0xffff, bytes);
    to = reinterpret_cast<Vector>(_mm512_maskz_cvtepi32_ps(0xffff, numbers));
    return;
  }
#endif
  typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  to = __builtin_convertvector(bytes, Vector);
}

template <class T>
inline T widened(T x) {
  return x;
}
inline float widened(f16 x) {
#if defined(__F16C__)
  return _cvtsh_ss(x.bits);
#else
  return to_float(x);
#endif
}

}  // namespace tapegrad
