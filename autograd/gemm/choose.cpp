// The one place that decides which library multiplies what.

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/gemm/library.h"

namespace tapegrad {

template <>
const Multiplier<float>& chosen() {
  static const Multiplier<float>& multiplier = *openblas<float>();
  return multiplier;
}

template <>
const Multiplier<double>& chosen() {
  static const Multiplier<double>& multiplier = *openblas<double>();
  return multiplier;
}

// On a processor without instructions for bf16, nobody asks for this: operands then hold rounded
// floats (operand.cpp), which are multiplied as f32.
template <>
const Multiplier<bf16>& chosen() {
  const Multiplier<bf16>* multiplier = onednn<bf16>();
  check(multiplier != nullptr, "[gemm] {}", describe_onednn());
  return *multiplier;
}

bool has_bf16_instructions() { return onednn<bf16>() != nullptr; }

std::string gemm_description(Precision precision) {
  return precision == Precision::bf16 ? describe_onednn() : describe_openblas();
}

}  // namespace tapegrad
