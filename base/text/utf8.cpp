#include "tapegrad/base/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <array>
#include <cstring>
#include <utility>

namespace tapegrad {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::uint8_t byte_at(std::string_view bytes, std::size_t i) {
  return static_cast<std::uint8_t>(bytes[i]);
}

// The length in bytes of a character, which its first byte decides, and the range of its second
// byte. That range excludes overlong forms, surrogates and values above U+10FFFF (Unicode 15, table
// 3-7).
struct Form {
  std::size_t size;  // 0: no character begins with this byte
  std::uint8_t low, high;
};

Form form_of(std::uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes of ASCII the text begins with, in whole words of 8 bytes.
std::size_t ascii_words(std::string_view text) {
  std::size_t size = 0;
  for (std::uint64_t word = 0; size + sizeof word <= text.size(); size += sizeof word) {
    std::memcpy(&word, text.data() + size, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  return size;
}

bool has_shape(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return code_point == ' ';
    default:
      return true;
  }
}

}  // namespace

Utf8Char first_char(std::string_view bytes) {
  const std::uint8_t lead = byte_at(bytes, 0);
  if (lead < 0x80) {
    return {Utf8Char::Kind::valid, 1, lead};
  }
  Form form = form_of(lead);
  if (form.size == 0) {
    return {Utf8Char::Kind::invalid, 1, 0};
  }
  char32_t code_point = lead & (0x7FU >> form.size);
  for (std::size_t i = 1; i < form.size; ++i) {
    if (i == bytes.size()) {
      return {Utf8Char::Kind::incomplete, i, 0};
    }
    const std::uint8_t next = byte_at(bytes, i);
    if (next < form.low || next > form.high) {
      return {Utf8Char::Kind::invalid, i, 0};
    }
    code_point = code_point << 6 | (next & 0x3FU);
    form.low = 0x80;
    form.high = 0xBF;
  }
  return {Utf8Char::Kind::valid, form.size, code_point};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    i += ascii_words(text.substr(i));
    if (i == text.size()) break;
    const Utf8Char c = first_char(text.substr(i));
    if (c.kind != Utf8Char::Kind::valid) {
      return i;
    }
    i += c.size;
  }
  return std::nullopt;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

std::string to_utf8(char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  return {bytes.begin(), bytes.begin() + size};
}

bool controls_terminal(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string describe_char(char32_t code_point) {
  const std::string number = fmt::format("U+{:04X}", static_cast<std::uint32_t>(code_point));
  return has_shape(code_point) ? fmt::format("'{}' ({})", to_utf8(code_point), number) : number;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  std::size_t done = 0;
  while (done < pending_.size()) {
    const Utf8Char c = first_char(std::string_view(pending_).substr(done));
    if (c.kind == Utf8Char::Kind::incomplete) {
      break;
    }
    text += c.kind == Utf8Char::Kind::valid ? std::string_view(pending_).substr(done, c.size)
                                            : kReplacement;
    done += c.size;
  }
  pending_.erase(0, done);
  return text;
}

std::string Utf8Stream::flush() {
  return std::exchange(pending_, {}).empty() ? std::string() : std::string(kReplacement);
}

}  // namespace tapegrad
