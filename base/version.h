#pragma once

#include "tapegrad/base/cxx20.h"

// The version of tapegrad; CMake and pkg-config read it here. Before 1.0, a change of the second
// number may change interfaces.
#define TAPEGRAD_VERSION_MAJOR 0
#define TAPEGRAD_VERSION_MINOR 2
#define TAPEGRAD_VERSION_PATCH 0
#define TAPEGRAD_VERSION "0.2.0"
