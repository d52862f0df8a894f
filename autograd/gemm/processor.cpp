#include "tapegrad/autograd/gemm/internal/processor.h"

#include <algorithm>
#include <chrono>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tapegrad {

#if defined(__x86_64__)

Isa processor_isa() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
  return __builtin_cpu_supports("avx") ? Isa::avx : Isa::basic;
}

bool processor_is_amd() { return __builtin_cpu_is("amd"); }
bool processor_has_avx512_bf16() { return __builtin_cpu_supports("avx512bf16"); }

namespace {

// Loops of nothing but fused multiply-adds. Each has enough sums for two units of five cycles each;
// no number leaves the registers.
constexpr int kSums = 12;
constexpr std::int64_t kRounds = 20'000;

__attribute__((target("avx512f"))) double fma_loop_avx512() {
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(1.0F);
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], a, b);
  }
  float total = 0;
  for (int i = 0; i < kSums; ++i) total += _mm512_cvtss_f32(sums[i]);
  return total;
}

__attribute__((target("avx2,fma"))) double fma_loop_avx2() {
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(1.0F);
  __m256 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], a, b);
  }
  float total = 0;
  for (int i = 0; i < kSums; ++i) total += _mm256_cvtss_f32(sums[i]);
  return total;
}

}  // namespace

double fma_rate() {
  const Isa isa = processor_isa();
  if (isa < Isa::avx2) return 0;
  const auto loop = isa == Isa::avx512 ? fma_loop_avx512 : fma_loop_avx2;
  const std::int64_t pieces = 8 * num_threads(), lanes = isa == Isa::avx512 ? 16 : 8;
  const double work = 2.0 * kSums * kRounds * static_cast<double>(lanes * pieces);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    parallel_for(pieces, 1, [&](std::int64_t from, std::int64_t to) {
      for (; from < to; ++from) {
        volatile double kept = loop();
        static_cast<void>(kept);
      }
    });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, work / taken.count());
  }
  return best;
}

#else

Isa processor_isa() { return Isa::basic; }
bool processor_is_amd() { return false; }
bool processor_has_avx512_bf16() { return false; }
double fma_rate() { return 0; }

#endif

}  // namespace tapegrad
