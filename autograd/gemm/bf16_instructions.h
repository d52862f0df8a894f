#pragma once

#include <cstdint>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The fastest instructions that products of bf16 run on here. That takes a processor that has them,
// and a library that uses them.
enum class Bf16Instructions : std::uint8_t { none, avx512, amx };
Bf16Instructions bf16_instructions();

}  // namespace tapegrad
