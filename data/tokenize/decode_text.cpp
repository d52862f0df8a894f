#include "tapegrad/data/tokenize/decode_text.h"

#include "tapegrad/base/error.h"

namespace tapegrad::data {

std::string decode_text(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string text = tokenizer.decode(tokens);
  if (tokenizer.kind() != "hf" || !text.starts_with(' ')) return text;
  try {
    if (tokenizer.decode(tokenizer.encode("a")) == " a") text.erase(0, 1);
  } catch (const Error&) {  // it has no token for that
  }
  return text;
}

}  // namespace tapegrad::data
