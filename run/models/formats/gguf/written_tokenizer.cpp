#include "tapegrad/run/models/formats/gguf/internal/written_tokenizer.h"

#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

using data::Token;

// Each is treated by some pre-tokenizer or normalizer in another way than its neighbours.
constexpr std::string_view kParts[] = {
    "a",      "B",      "ß",  "é",   "e\u0301", "İ",  "ﬁ",  "Ａ", "中文", "\u0E01\u0E33",
    "1",      "2345",   "٣",  "²",   " ",       "  ", "\t", "\n", "\r\n", "\u00A0",
    "\u3000", "\u2028", "'s", "'LL", "\u2019",  ".",  "--", "_",  "<",    "👍🏽",
    "▁",      "\u0338"};

// Compares the tokens of texts.
class Comparison {
 public:
  Comparison(const data::Tokenizer& ours, const data::Tokenizer& written)
      : ours_(ours, kBytes), written_(written, kBytes) {}

  void operator()(std::string_view text, bool allow_special) {
    of_ours_.clear(), of_written_.clear();
    ours_.encode(text, allow_special, of_ours_);
    written_.encode(text, allow_special, of_written_);
    check(
        of_ours_ == of_written_,
        "a GGUF file cannot say how this tokenizer encodes texts: {} becomes the tokens {}, and by "
        "the file's keys {}",
        json_text(Json(text)), of_ours_, of_written_);
  }

 private:
  static constexpr std::size_t kBytes = 1 << 20;
  data::Encoder ours_, written_;
  std::vector<Token> of_ours_, of_written_;
};

void compare_bytes(const data::Tokenizer& ours, const data::Tokenizer& written,
                   std::int64_t unknown) {
  for (Token token = 0; token < ours.vocab_size(); ++token) {
    if (token == unknown) continue;  // each program has a text of its own for it
    const std::string bytes = ours.token_bytes(token), other = written.token_bytes(token);
    check(bytes == other || other.empty(),
          "a GGUF file cannot say how this tokenizer writes the token {}: as {}, and by the file's "
          "keys {}",
          token, json_text(Json(data::shown_bytes(bytes))),
          json_text(Json(data::shown_bytes(other))));
  }
}

}  // namespace

void check_written_tokenizer(const GgufKeys& keys, const data::Tokenizer& tokenizer) {
  const auto file = std::make_shared<const GgufFile>("the keys to be written", keys);
  const data::Tokenizer written = gguf_tokenizer(file, tokenizer.vocab_size());
  compare_bytes(tokenizer, written,
                gguf_value<std::int64_t>(*file, kTokenizerKey + "unknown_token_id", -1));
  if (tokenizer.kind() == "char") return;  // most of the texts have other characters
  Comparison compare(tokenizer, written);
  std::string text;
  for (const std::string_view first : kParts) {
    for (const std::string_view second : kParts) {
      for (const std::string_view third : kParts) {
        compare(text.assign(first).append(second).append(third), false);
      }
    }
  }
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.is_added(token)) continue;
    const std::string added = tokenizer.token_bytes(token);
    for (const bool special : {false, true}) {
      for (const std::string_view part : {"a", " ", "1", "\n", "\u0338"}) {
        compare(text.assign(part).append(added).append(part), special);
      }
      // As a byte-level vocabulary shows it, and what it would be if it were shown so.
      compare(data::shown_bytes(added), special);
      if (const auto bytes = data::bytes_of_shown(added)) compare("a" + *bytes + "a", special);
    }
  }
}

}  // namespace tapegrad::run
