// tokenizer.json. What is accepted must be saved to a file that is the same tokenizer, and what it
// encodes must decode to the same text.

#include <optional>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// Nothing for a text with a character that the tokenizer has no token for. That error is one of the
// text, and names no file.
std::optional<std::vector<data::Token>> tokens_of(const data::Tokenizer& tokenizer,
                                                  const std::string& text) {
  std::optional<std::vector<data::Token>> tokens;
  fuzz::accepts("no token for", [&] { tokens = tokenizer.encode(text); });
  return tokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("tokenizer.json", fuzz::text_of(data, size));
  std::optional<data::Tokenizer> loaded;
  fuzz::accepts("tokenizer.json", [&] { loaded = data::Tokenizer::load(path); });
  if (!loaded || loaded->kind() == "gpt2") return 0;  // gpt2 is large, and not of the file
  const data::Tokenizer& tokenizer = *loaded;

  std::string all;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    all += tokenizer.token_bytes(token);
  }
  const auto tokens = tokens_of(tokenizer, all);
  // One of Hugging Face's may normalize the text, and lack tokens.
  if (tokenizer.kind() != "hf" && (!tokens || tokenizer.decode(*tokens) != all)) {
    fuzz::finding("the text has changed");
  }
  tokenizer.save(path);
  const auto again = data::Tokenizer::load(path);
  if (again.vocab_size() != tokenizer.vocab_size() || tokens_of(again, all) != tokens) {
    fuzz::finding("a saved tokenizer has changed");
  }
  return 0;
}
