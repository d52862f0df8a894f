#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tapegrad::data {

// The byte that each of the tokens 0 … 255 of GPT-2 stands for: first the 188 printable characters
// of Latin-1 in ascending order, then the other bytes in ascending order.
const std::array<std::uint8_t, 256>& gpt2_byte_order();

// Files of byte-level vocabularies write each byte as a character: a printable one as itself, the
// other 68 as U+0100, U+0101 … in ascending order, so that a space is Ġ and a newline Ċ. The bytes
// that `shown` stands for; nothing if it has another character.
std::optional<std::string> bytes_of_shown(std::string_view shown);

// The inverse.
std::string shown_bytes(std::string_view bytes);

}  // namespace tapegrad::data
