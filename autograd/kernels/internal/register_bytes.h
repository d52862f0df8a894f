#pragma once

#include <cstddef>

namespace tapegrad {

// Bytes of the widest vector registers of the processors that this is compiled for.
#if defined(__AVX512F__)
inline constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t kRegisterBytes = 32;
#else
inline constexpr std::size_t kRegisterBytes = 16;
#endif

}  // namespace tapegrad
