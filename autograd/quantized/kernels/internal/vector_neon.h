#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace tapegrad::quantized {
namespace {

// Sixteen lanes in four registers of NEON, with dot products of bytes: see vector_plain.h.
struct Neon {
  static constexpr int kColumns = 4, kPanels = 1, kSums = 4;

  template <class Register>
  struct Four {
    Register v[4];
  };
  using F = Four<float32x4_t>;
  using I = Four<int32x4_t>;
  using B = Four<uint8x16_t>;

  static F set(float x) {
    return each<F>([=](int) { return vdupq_n_f32(x); });
  }
  static F load(const float* from) {
    return each<F>([=](int i) { return vld1q_f32(from + 4 * i); });
  }
  static void store(float* to, const F& f) {
    for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, f.v[i]);
  }
  static F add(const F& a, const F& b) {
    return each<F>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  static F mul(const F& a, const F& b) {
    return each<F>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  static F fma(const F& a, const F& b, const F& c) {
    return each<F>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }
  static F fused(const F& a, const F& b, const F& c) { return fma(a, b, c); }

  static F f16s(const std::uint8_t* from) {
    return each<F>([=](int i) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from + 8 * i))); });
  }
  static F bf16s(const std::uint8_t* from) {
    return each<F>([=](int i) {
      const uint16x4_t bits = vreinterpret_u16_u8(vld1_u8(from + 8 * i));
      return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
    });
  }
  static F u8s(const std::uint8_t* from) { return floats(wide(vld1q_u8(from))); }
  static I s8s(const std::uint8_t* from) {
    const int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(from));
    const int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_high_s8(x);
    return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
             vmovl_high_s16(high)}};
  }

  template <int At>
  static I u4s(const std::uint8_t* from) {
    const uint8x16_t x = vld1q_u8(from);
    if constexpr (At == 0) {
      return wide(vandq_u8(x, vdupq_n_u8(15)));
    } else {
      return wide(vandq_u8(vshrq_n_u8(x, At), vdupq_n_u8(15)));
    }
  }

  static B bytes(const std::uint8_t* from) {
    return each<B>([=](int i) { return vld1q_u8(from + 16 * i); });
  }
  static B low_nibbles(const B& b) {
    return each<B>([&](int i) { return vandq_u8(b.v[i], vdupq_n_u8(15)); });
  }
  static B high_nibbles(const B& b) {
    return each<B>([&](int i) { return vshrq_n_u8(b.v[i], 4); });
  }
  template <int At, int Bits, int To = 4>
  static B field(const B& b) {
    const uint8x16_t mask = vdupq_n_u8(((1 << Bits) - 1) << To);
    return each<B>([&](int i) {
      if constexpr (At <= To) {
        return vandq_u8(vshlq_n_u8(b.v[i], To - At), mask);
      } else {
        return vandq_u8(vshrq_n_u8(b.v[i], At - To), mask);
      }
    });
  }
  static B lookup(const std::int8_t* sixteen, const B& b) {
    const uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(sixteen));
    return each<B>([&](int i) { return vqtbl1q_u8(table, b.v[i]); });
  }
  static B either(const B& a, const B& b) {
    return each<B>([&](int i) { return vorrq_u8(a.v[i], b.v[i]); });
  }

  static I ints(std::int32_t x) {
    return each<I>([=](int) { return vdupq_n_s32(x); });
  }
  static I add(const I& a, const I& b) {
    return each<I>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
  }
  static I mul(const I& a, const I& b) {
    return each<I>([&](int i) { return vmulq_s32(a.v[i], b.v[i]); });
  }
  static F floats(const I& a) {
    return each<F>([&](int i) { return vcvtq_f32_s32(a.v[i]); });
  }

  // Bytes up to 127 are the same with a sign.
  static I dot(const I& sum, const B& w, const std::int8_t* x) { return signed_dot(sum, w, x); }
  static I signed_begin(std::int32_t) { return ints(0); }
  static I signed_dot(const I& sum, const B& w, const std::int8_t* x) {
    std::int32_t bits;
    std::memcpy(&bits, x, sizeof bits);
    const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(bits));
    return each<I>([&](int i) { return vdotq_s32(sum.v[i], vreinterpretq_s8_u8(w.v[i]), four); });
  }

 private:
  template <class Vector, class Op>
  static Vector each(const Op& op) {
    return {{op(0), op(1), op(2), op(3)}};
  }
  static I wide(uint8x16_t x) {
    const uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
    const auto ints_of = [](uint32x4_t v) { return vreinterpretq_s32_u32(v); };
    return {{ints_of(vmovl_u16(vget_low_u16(low))), ints_of(vmovl_high_u16(low)),
             ints_of(vmovl_u16(vget_low_u16(high))), ints_of(vmovl_high_u16(high))}};
  }
};

}  // namespace
}  // namespace tapegrad::quantized
