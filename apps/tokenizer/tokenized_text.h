#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::tokenizers {

// A text by one tokenizer.
struct TokenizedText {
  std::string name;    // of the tokenizer, for people: any bytes
  std::string method;  // see method_of()
  std::int64_t vocab_size = 0;
  std::vector<data::Token> tokens = {};
  double bytes_per_token = 0, bytes_per_second = 0;
  bool comes_back = false;                // byte for byte, from its tokens
  std::optional<std::string> error = {};  // there are no tokens: a character is unknown

  double tokens_per_byte() const { return bytes_per_token == 0 ? 0 : 1 / bytes_per_token; }
};

// `special`: special tokens in the text are read as such. The rate is that of one thread, which has
// seen nothing of the text before; a short text is encoded again until that takes long enough to be
// timed.
TokenizedText tokenize(const std::string& name, const data::Tokenizer& tokenizer,
                       std::string_view text, bool special);

// The first `most` bytes, as "E2 96 81 …".
std::string hex_bytes(std::string_view bytes, std::size_t most);

// A row for each tokenizer, for a terminal; below it what went wrong.
std::string comparison_table(const std::vector<TokenizedText>& texts);

// The same as a page that needs no other file and no script, with the tokens of the text's
// beginning in colours. `tokenizers[i]` has made texts[i].
struct ComparedText {
  std::string name;  // of the text, for people
  std::string_view text;
  const std::vector<TokenizedText>& texts;
  const std::vector<data::Tokenizer>& tokenizers;
};
inline constexpr std::size_t kMostPageBytes = 6000;  // of the text, by each tokenizer
std::string comparison_page(const ComparedText& compared);

}  // namespace tapegrad::tokenizers
