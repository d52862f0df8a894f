#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/base/half.h"

namespace tapegrad::quantized {
namespace {  // each source that includes this is compiled for other processors

// Sixteen lanes, one for each row of a panel, in plain C++: what the kernels need of a processor,
// and the meaning of vector_avx2.h and vector_avx512.h.
struct Plain {
  // How many sums a product keeps in registers: of one panel, for so many columns; of kPanels
  // panels of floats, kSums in all.
  static constexpr int kColumns = 4, kPanels = 1, kSums = 4;

  struct F {
    float lane[16];
  };
  struct I {
    std::int32_t lane[16];
  };
  struct B {  // four bytes for each lane
    std::uint8_t byte[64];
  };

  template <class Op>
  static F each(const Op& op) {
    F f;
    for (int i = 0; i < 16; ++i) f.lane[i] = op(i);
    return f;
  }
  template <class Op>
  static B each_byte(const Op& op) {
    B b;
    for (int i = 0; i < 64; ++i) b.byte[i] = static_cast<std::uint8_t>(op(i));
    return b;
  }

  static F set(float x) {
    return each([=](int) { return x; });
  }
  static F load(const float* from) {
    return each([=](int i) { return from[i]; });
  }
  static void store(float* to, const F& f) { std::memcpy(to, f.lane, sizeof f.lane); }
  static F add(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static F mul(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  // a·b + c, rounded once where the processor has an instruction for that.
  static F fma(const F& a, const F& b, const F& c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return each([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
#else
    return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
#endif
  }
  // The same, rounded once on any processor.
  static F fused(const F& a, const F& b, const F& c) {
    return each([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
  }

  // Numbers that are stored shorter.
  static F f16s(const std::uint8_t* from) {
    f16 halves[16];
    std::memcpy(halves, from, sizeof halves);
    return each([&](int i) { return to_float(halves[i]); });
  }
  static F bf16s(const std::uint8_t* from) {
    std::uint16_t halves[16];
    std::memcpy(halves, from, sizeof halves);
    return each([&](int i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(halves[i]) << 16;
      float x;
      std::memcpy(&x, &bits, sizeof x);
      return x;
    });
  }
  static F u8s(const std::uint8_t* from) {
    return each([=](int i) { return static_cast<float>(from[i]); });
  }
  static I s8s(const std::uint8_t* from) {
    I r;
    for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<std::int8_t>(from[i]);
    return r;
  }

  // Numbers of four bits, from bit `At` of each byte on.
  template <int At>
  static I u4s(const std::uint8_t* from) {
    I r;
    for (int i = 0; i < 16; ++i) r.lane[i] = from[i] >> At & 15;
    return r;
  }

  static B bytes(const std::uint8_t* from) {
    B b;
    std::memcpy(b.byte, from, sizeof b.byte);
    return b;
  }
  static B low_nibbles(const B& b) {
    return each_byte([&](int i) { return b.byte[i] & 15; });
  }
  static B high_nibbles(const B& b) {
    return each_byte([&](int i) { return b.byte[i] >> 4; });
  }
  // The field of `Bits` bits from bit `At` of each byte on, moved to bit `To`.
  template <int At, int Bits, int To = 4>
  static B field(const B& b) {
    return each_byte([&](int i) { return ((b.byte[i] >> At) & ((1 << Bits) - 1)) << To; });
  }
  // The byte of a table for each number of four bits.
  static B lookup(const std::int8_t* sixteen, const B& b) {
    return each_byte([&](int i) { return sixteen[b.byte[i]]; });
  }
  static B either(const B& a, const B& b) {
    return each_byte([&](int i) { return a.byte[i] | b.byte[i]; });
  }

  static I ints(std::int32_t x) {
    I r;
    for (int i = 0; i < 16; ++i) r.lane[i] = x;
    return r;
  }
  static I add(const I& a, const I& b) {
    I r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] + b.lane[i];
    return r;
  }
  static I mul(const I& a, const I& b) {
    I r;
    for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] * b.lane[i];
    return r;
  }
  static F floats(const I& a) {
    return each([&](int i) { return static_cast<float>(a.lane[i]); });
  }

  // sum + Σ w·x over the four bytes of each lane: w from 0 to 127, x from −127 to 127.
  static I dot(const I& sum, const B& w, const std::int8_t* x) {
    I r = sum;
    for (int i = 0; i < 16; ++i) {
      for (int b = 0; b < 4; ++b) r.lane[i] += w.byte[4 * i + b] * x[b];
    }
    return r;
  }
  // The same for bytes w with a sign, from −128 to 127. A sum of them begins with signed_begin() of
  // the sum of all x.
  static I signed_begin(std::int32_t) { return ints(0); }
  static I signed_dot(const I& sum, const B& w, const std::int8_t* x) {
    I r = sum;
    for (int i = 0; i < 16; ++i) {
      for (int b = 0; b < 4; ++b) r.lane[i] += static_cast<std::int8_t>(w.byte[4 * i + b]) * x[b];
    }
    return r;
  }
};

}  // namespace
}  // namespace tapegrad::quantized
