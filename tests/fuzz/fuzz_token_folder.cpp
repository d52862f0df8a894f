// A folder of tokens: u16, then so many bytes of train.bin; the same of val.bin; and the rest is
// meta.pkl, or there is none. What is accepted must have ids of its tokenizer, and no more than
// there are bytes for.

#include <cstring>

#include "tapegrad/run/formats/token_files.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// The next part of the input, behind its length.
std::string_view take(std::string_view& input) {
  std::uint16_t length = 0;
  if (input.size() < sizeof length) return {};
  std::memcpy(&length, input.data(), sizeof length);
  input.remove_prefix(sizeof length);
  const std::string_view part = input.substr(0, length);
  input.remove_prefix(part.size());
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input = fuzz::text_of(data, size);
  fuzz::put("train.bin", take(input));
  fuzz::put("val.bin", take(input));
  if (input.empty()) {
    std::filesystem::remove(fuzz::folder() / "meta.pkl");
  } else {
    fuzz::put("meta.pkl", input);
  }
  fuzz::accepts(fuzz::folder().string(), [&] {
    const run::Text text = run::read_token_folder(fuzz::folder());
    const run::TokenText& tokens = *text.tokens;
    if (2 * (tokens.train.size() + tokens.val.size()) > size) fuzz::finding("more ids than bytes");
    tokens.tokenizer.decode(tokens.train);
    tokens.tokenizer.decode(tokens.val);
    if (&run::tokens_for(text, tokens.tokenizer) != &tokens) fuzz::finding("other tokens");
  });
  return 0;
}
