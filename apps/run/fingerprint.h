#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapegrad::run {

// Equal texts have equal ones: FNV-1a (Fowler, Noll & Vo), 64 bits, in hexadecimal.
inline std::string fingerprint(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

}  // namespace tapegrad::run
