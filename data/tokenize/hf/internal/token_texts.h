#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::data {

// The bytes behind a file's way to show tokens: the decoders of Hugging Face's tokenizers.
struct TokenTexts {
  bool byte_level = false;     // shown_bytes()
  bool byte_fallback = false;  // <0x0A> is a byte
  std::vector<std::pair<std::string, std::string>> replaced;

  // The bytes; nothing for a text that is not written in the byte-level alphabet.
  std::optional<std::string> bytes_of(std::string_view shown) const;
};

}  // namespace tapegrad::data
