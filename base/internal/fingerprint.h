#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapegrad {

// Equal texts have equal ones: FNV-1a (Fowler, Noll & Vo), 64 bits, in hexadecimal.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    std::uint64_t hash = hash_;  // a member would be written to memory at each byte
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    hash_ = hash;
  }
  std::string str() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};
inline std::string fingerprint(std::string_view bytes) {
  Fingerprint hash;
  hash.add(bytes);
  return hash.str();
}

}  // namespace tapegrad
