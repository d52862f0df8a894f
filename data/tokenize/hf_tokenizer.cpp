#include "tapegrad/data/tokenize/hf_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/data/tokenize/utf8.h"

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

std::vector<Token> HfTokenizer::encode_documents(std::span<const std::string_view> documents,
                                                 bool allow_special,
                                                 std::optional<Token> end) const {
  PieceEncoder encoder(pairs_);
  std::deque<std::string> normalized;  // texts that the encoder's pieces are parts of
  const auto encode_ordinary = [&](std::string_view part) {
    pre_tokenizer_.cut(part, [&](std::string_view piece) { encoder.append(piece); });
  };
  const auto append = [&](Token token) { encoder.append(token); };
  const auto encode_valid = [&](std::string_view valid) {
    raw_.cut(valid, allow_special, append, [&](std::string_view part) {
      if (nfc_ && !is_ascii(part)) part = normalized.emplace_back(nfc(part));
      normalized_.cut(part, allow_special, append, encode_ordinary);
    });
  };
  const auto encode_bytes = [&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
      encode_valid(text.substr(0, valid));
      text.remove_prefix(valid);
      if (text.empty()) break;
      encoder.append(text.substr(0, 1));
      text.remove_prefix(1);
    }
  };
  for (std::size_t i = 0; i < documents.size(); ++i) {
    encode_bytes(documents[i]);
    if (i + 1 == documents.size()) break;
    if (!end) {
      encode_bytes(empty_line_after(documents[i]));
    } else if (!allow_special || !ends_with_mark(documents[i], bytes(*end))) {
      encoder.append(*end);
    }
  }
  return encoder.take();
}

}  // namespace tapegrad::data
