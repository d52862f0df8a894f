#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string nfc(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  check(size >= 0, "[tokenizer] the text cannot be normalized: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

void HfTokenizer::encode(std::string_view text, bool allow_special, PieceCache& cache,
                         std::vector<Token>& tokens) const {
  PieceEncoder encoder(pairs_, cache, tokens);
  const auto encode_ordinary = [&](std::string_view part) {
    pre_tokenizer_.cut(part, [&](std::string_view piece) { encoder.append(piece); });
  };
  const auto append = [&](Token token) { encoder.append(token); };
  const auto encode_valid = [&](std::string_view valid) {
    raw_.cut(valid, allow_special, append, [&](std::string_view part) {
      const std::string normalized = nfc_ && !is_ascii(part) ? nfc(part) : std::string();
      normalized_.cut(normalized.empty() ? part : normalized, allow_special, append,
                      encode_ordinary);
    });
  };
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    encode_valid(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    encoder.append(text.substr(0, 1));
    text.remove_prefix(1);
  }
}

}  // namespace tapegrad::data
