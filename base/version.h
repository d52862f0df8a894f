#pragma once

#include <string_view>

#include "tapegrad/base/cxx20.h"

// The version of tapegrad; CMake and pkg-config read it here. Before 1.0, a change of the second
// number may change interfaces.
#define TAPEGRAD_VERSION_MAJOR 0
#define TAPEGRAD_VERSION_MINOR 2
#define TAPEGRAD_VERSION_PATCH 0
#define TAPEGRAD_VERSION "0.2.0"

namespace tapegrad {

// The processors that the library in use was compiled for: x86-64-v4 (those with AVX-512), -v3
// (AVX2), -v2 (SSE4.2) or x86-64, aarch64, or "other". Of an installed tapegrad that has libraries
// for several of them, the system's loader takes the best that the processor can run.
std::string_view compiled_for();

}  // namespace tapegrad
