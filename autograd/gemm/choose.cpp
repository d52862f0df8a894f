// The one place that decides which library multiplies what.

#include <atomic>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/gemm/library.h"
#include "tapegrad/autograd/gemm/processor.h"

namespace tapegrad {
namespace {

std::atomic<GemmLibrary> asked{GemmLibrary::automatic};

// Whether oneDNN is the faster one for this product of floats. Written after `bench gemm`: see
// docs/performance.md. The table holds for a processor's instructions, not for what a run measures,
// so that two runs on one machine have the same bits.
bool faster_by_onednn(const Gemm<float>& g) {
  if (processor_isa() != Isa::avx512) return false;
  // Describing a small product to oneDNN takes longer than computing it. One row is a matrix times
  // a vector, which OpenBLAS has a function for.
  if (g.m == 1 || g.m * g.n * g.k < kUncutWork) return false;
  // Weights' gradients of many rows: OpenBLAS reads both operands along their columns faster.
  constexpr std::int64_t kManyRows = 2048;
  return !(g.ta && g.k >= kManyRows);
}

}  // namespace

template <>
const Multiplier<float>& chosen(const Gemm<float>& g) {
  static const Multiplier<float>* const one_dnn = onednn<float>();
  const GemmLibrary by = asked.load(std::memory_order_relaxed);
  const bool other = by == GemmLibrary::onednn ||
                     (by == GemmLibrary::automatic && one_dnn != nullptr && faster_by_onednn(g));
  return other && g.alpha == 1 && (g.beta == 0 || g.beta == 1) ? *one_dnn : *openblas<float>();
}

template <>
const Multiplier<double>& chosen(const Gemm<double>&) {
  return *openblas<double>();
}

// On a processor without instructions for bf16, nobody asks for this: operands then hold rounded
// floats (operand.cpp), which are multiplied as f32.
template <>
const Multiplier<bf16>& chosen(const Gemm<bf16>&) {
  const Multiplier<bf16>* multiplier = onednn<bf16>();
  check(multiplier != nullptr, "[gemm] {}", describe_onednn(Precision::bf16));
  return *multiplier;
}

void set_gemm_library(GemmLibrary library) {
  check(library != GemmLibrary::onednn || onednn<float>() != nullptr, "{}",
        describe_onednn(Precision::full));
  asked = library;
}

bool has_bf16_instructions() { return onednn<bf16>() != nullptr; }

std::string gemm_description(Precision precision) {
  if (precision == Precision::bf16) return describe_onednn(precision);
  const bool both = asked == GemmLibrary::automatic && onednn<float>() != nullptr &&
                    processor_isa() == Isa::avx512;
  if (both) return fmt::format("{} and {}", describe_onednn(precision), describe_openblas());
  return asked == GemmLibrary::onednn ? describe_onednn(precision) : describe_openblas();
}

}  // namespace tapegrad
