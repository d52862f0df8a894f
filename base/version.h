#pragma once

// The first header of each build against tapegrad: everything else needs what this asks for.
#if __cplusplus < 202002L
#error "tapegrad needs C++20: compile with -std=c++20 or newer"
#endif

// The version of tapegrad; CMake and pkg-config read it here. Before 1.0, a change of the second
// number may change interfaces.
#define TAPEGRAD_VERSION_MAJOR 0
#define TAPEGRAD_VERSION_MINOR 2
#define TAPEGRAD_VERSION_PATCH 0
#define TAPEGRAD_VERSION "0.2.0"
