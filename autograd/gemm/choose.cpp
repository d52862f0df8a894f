// The one place that decides which library multiplies what.

#include <atomic>

#include "tapegrad/autograd/gemm/int8_rows.h"
#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/autograd/gemm/internal/processor.h"
#include "tapegrad/autograd/gemm/internal/product_trial.h"
#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

std::atomic<GemmLibrary> asked{GemmLibrary::automatic};

// True if oneDNN is the faster one for this product of floats. Written after `bench gemm`: see
// docs/performance.md. The table holds for a processor's instructions, not for what a run measures,
// so that two runs on one machine have the same bits.
bool faster_by_onednn(const Gemm<float>& g) {
  if (processor_isa() != Isa::avx512) return false;
  // Describing a small product to oneDNN takes longer than computing it. One row is a matrix times
  // a vector, which OpenBLAS has a function for.
  if (g.m == 1 || g.m * g.n * g.k < kUncutWork) return false;
  // Weights' gradients of many rows: OpenBLAS reads both operands along their columns faster,
  // unless the weight is small.
  constexpr std::int64_t kManyRows = 2048, kSmall = 128 * 256;
  return !(g.ta && g.k >= kManyRows && g.m * g.n > kSmall);
}

// A library is tried once before it is used: a version or a kernel that multiplies wrongly would
// spoil every number without a word. Empty if all products came out right.
template <class T>
const std::string& fault_of_onednn() {
  static const std::string fault = onednn<T>() == nullptr ? "" : trial(*onednn<T>());
  return fault;
}

template <class T>
const Multiplier<T>* right_onednn() {
  static const Multiplier<T>* const by = fault_of_onednn<T>().empty() ? onednn<T>() : nullptr;
  return by;
}

template <class T>
const Multiplier<T>& right_openblas() {
  static const Multiplier<T>& by = [&]() -> const Multiplier<T>& {
    const std::string fault = trial(*openblas<T>());
    check(fault.empty(),
          "{} multiplies wrongly on this processor: {}. Set OPENBLAS_CORETYPE to other kernels "
          "(Haswell), or let TAPEGRAD_OPENBLAS name another libopenblas.so.0",
          describe_openblas(), fault);
    return *openblas<T>();
  }();
  return by;
}

// True if oneDNN may be asked for some products of floats.
bool wants_onednn() {
  return asked == GemmLibrary::automatic && processor_isa() == Isa::avx512 &&
         onednn<float>() != nullptr;
}

std::string describe_refused(const std::string& by, const std::string& fault) {
  return fmt::format("{} is not used, since it multiplies wrongly here: {}", by, fault);
}

}  // namespace

template <>
const Multiplier<float>& chosen(const Gemm<float>& g) {
  const GemmLibrary by = asked.load(std::memory_order_relaxed);
  const bool other =
      by == GemmLibrary::onednn ||
      (by == GemmLibrary::automatic && faster_by_onednn(g) && right_onednn<float>() != nullptr);
  // oneDNN is asked for plain sums only.
  if (other && g.alpha == 1 && (g.beta == 0 || g.beta == 1)) return *right_onednn<float>();
  return right_openblas<float>();
}

template <>
const Multiplier<double>& chosen(const Gemm<double>&) {
  return right_openblas<double>();
}

// On a processor without instructions for bf16, nobody asks for this: operands then hold rounded
// floats (operand.cpp), which are multiplied as f32.
template <>
const Multiplier<bf16>& chosen(const Gemm<bf16>&) {
  check(has_bf16_instructions(), "[gemm] {}", gemm_description(Precision::bf16));
  return *right_onednn<bf16>();
}

template <>
const Multiplier<std::int8_t>& chosen(const Gemm<std::int8_t>&) {
  static constexpr Multiplier<std::int8_t> floats{.multiply = multiply_by_floats};
  return has_int8_instructions() ? *right_onednn<std::int8_t>() : floats;
}

void set_gemm_library(GemmLibrary library) {
  if (library == GemmLibrary::onednn) {
    const std::string by = describe_onednn(Precision::full);
    check(onednn<float>() != nullptr, "{}", by);
    check(right_onednn<float>() != nullptr, "{}", describe_refused(by, fault_of_onednn<float>()));
  }
  asked = library;
}

bool has_bf16_instructions() { return right_onednn<bf16>() != nullptr; }
bool has_int8_instructions() { return right_onednn<std::int8_t>() != nullptr; }

Bf16Instructions bf16_instructions() {
  return has_bf16_instructions() ? onednn_bf16() : Bf16Instructions::none;
}

std::string gemm_identity() {
  std::string text = describe_openblas(false);
  if (onednn<float>() != nullptr) text += " and " + describe_onednn(Precision::full);
  return fmt::format("{} (--gemm {})", text,
                     kGemmLibraryNames[static_cast<std::size_t>(asked.load())]);
}

std::string gemm_description(Precision precision) {
  const std::string one_dnn = describe_onednn(precision);
  if (precision != Precision::full) {
    const std::string& fault =
        precision == Precision::bf16 ? fault_of_onednn<bf16>() : fault_of_onednn<std::int8_t>();
    return fault.empty() ? one_dnn : describe_refused(one_dnn, fault);
  }
  if (asked == GemmLibrary::onednn) return one_dnn;
  if (!wants_onednn()) return describe_openblas();
  const std::string& fault = fault_of_onednn<float>();
  return fault.empty()
             ? fmt::format("{} and {}", one_dnn, describe_openblas())
             : fmt::format("{}; {}", describe_openblas(), describe_refused(one_dnn, fault));
}

}  // namespace tapegrad
