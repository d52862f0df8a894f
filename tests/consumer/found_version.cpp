// Checks that CMake found the headers' version.

#include <tapegrad/tapegrad.h>

#include <array>
#include <string_view>

#ifdef FOUND_VERSION
static_assert(std::string_view(TAPEGRAD_VERSION) == FOUND_VERSION);
static_assert(std::array{FOUND_NUMBERS} ==
              std::array{TAPEGRAD_VERSION_MAJOR, TAPEGRAD_VERSION_MINOR, TAPEGRAD_VERSION_PATCH});
#endif
