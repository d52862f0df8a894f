#pragma once

#include <cstdint>

namespace tapegrad {

// The widest vector instructions that this processor has, and its operating system allows. Each
// includes those before it. Other than x86: basic.
enum class Isa : std::uint8_t { basic, avx, avx2, avx512 };
Isa processor_isa();
bool processor_is_amd();
bool processor_has_avx512_bf16();

}  // namespace tapegrad
