#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace tapegrad {

// A message in protobuf's wire format (protobuf.dev/programming-guides/encoding), field by field.
// The format is that small, and the libraries do not depend on protobuf: see
// docs/architecture.md.
class WireMessage {
 public:
  WireMessage& number(int field, std::int64_t value) {
    return key(field, 0).varint(static_cast<std::uint64_t>(value));
  }
  WireMessage& real(int field, float value) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    key(field, 5);
    for (int i = 0; i < 4; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 255);
    return *this;
  }
  WireMessage& text(int field, std::string_view bytes) {
    begin(field, bytes.size());
    bytes_ += bytes;
    return *this;
  }
  WireMessage& message(int field, const WireMessage& inner) { return text(field, inner.bytes_); }
  // The beginning of a text or a message of so many bytes, which follow elsewhere.
  WireMessage& begin(int field, std::uint64_t size) { return key(field, 2).varint(size); }
  const std::string& bytes() const { return bytes_; }

 private:
  WireMessage& key(int field, int kind) {
    return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind));
  }
  WireMessage& varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>((value & 127) | 128);
    bytes_ += static_cast<char>(value);
    return *this;
  }

  std::string bytes_;
};

}  // namespace tapegrad
