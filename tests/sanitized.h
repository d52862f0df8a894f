#pragma once

namespace tapegrad {

// Under sanitizers, tests of many inputs alike take some of them: the others find no other memory
// errors.
#if defined(TAPEGRAD_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tapegrad
