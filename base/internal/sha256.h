#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// SHA-256 (FIPS 180-4, section 6.2), of bytes that come piece by piece.
class Sha256 {
 public:
  static constexpr std::size_t kBlock = 64, kDigest = 32;  // bytes
  using Digest = std::array<std::uint8_t, kDigest>;

  void add(std::string_view bytes);
  // Of all bytes so far. Nothing may be added afterwards.
  Digest digest();

 private:
  void add_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, kBlock> waiting_ = {};  // bytes of a block that is not complete
  std::uint64_t size_ = 0;                         // of all bytes so far
};

// In lower-case hexadecimal.
std::string hex_of(const Sha256::Digest& digest);
// HMAC-SHA256 (RFC 2104) in hexadecimal: whoever does not know the key cannot make that of a text.
std::string hmac_sha256(std::string_view key, std::string_view text);
// True if two texts are equal. The time does not tell where they differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace tapegrad
