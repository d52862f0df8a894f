// tokenizer.json. What is accepted must be saved to a file that is the same tokenizer, and what it
// encodes must decode to the same text.

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("tokenizer.json", fuzz::text_of(data, size));
  fuzz::accepts("tokenizer.json", [&] {
    const auto tokenizer = data::Tokenizer::load(path);
    if (tokenizer.kind() == "gpt2") return;  // large, and not of the file
    std::string all;
    for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
      all += tokenizer.token_bytes(token);
    }
    // One of Hugging Face's may normalize the text.
    const bool normalizes = tokenizer.kind() == "hf";
    if (tokenizer.decode(tokenizer.encode(all)) != all && !normalizes) {
      fuzz::finding("the text has changed");
    }
    tokenizer.save(path);
    const auto again = data::Tokenizer::load(path);
    if (again.vocab_size() != tokenizer.vocab_size() ||
        again.encode(all) != tokenizer.encode(all)) {
      fuzz::finding("a saved tokenizer has changed");
    }
  });
  return 0;
}
