// A folder of tokens: u16, then so many bytes of train.bin; the same of val.bin and of data.json;
// and the rest is meta.pkl. Of what has no bytes, the last two have no file. With data.json, there
// is the tokenizer.json of the seeds. What is accepted must have ids of its tokenizer, and no more
// than there are bytes for.

#include <cstring>

#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

constexpr std::string_view kTokenizer =
    R"({"format":"tapegrad-tokenizer","version":1,"kind":"char","vocab_size":8,"characters":"abcdefgh"})"
    "\n";

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

void put_or_remove(const char* name, std::string_view bytes) {
  if (bytes.empty()) {
    std::filesystem::remove(fuzz::folder() / name);
  } else {
    fuzz::put(name, bytes);
  }
}

std::vector<data::Token> values_of(const data::TokenSource& tokens) {
  std::vector<data::Token> values(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, values);
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input = fuzz::text_of(data, size);
  fuzz::put("train.bin", take(input));
  fuzz::put("val.bin", take(input));
  const std::string_view json = take(input);
  put_or_remove(data::kDataFile, json);
  put_or_remove(data::kDataTokenizerFile, json.empty() ? "" : kTokenizer);
  put_or_remove("meta.pkl", input);
  fuzz::accepts(fuzz::folder().string(), [&] {
    run::Text text = run::read_token_folder(fuzz::folder());
    if (!text.tokens) fuzz::finding("conversations without turns");
    const run::TokenText& tokens = *text.tokens;
    const std::int64_t count = tokens.train.tokens.size() + tokens.val.tokens.size();
    if (2 * count > static_cast<std::int64_t>(size)) fuzz::finding("more ids than bytes");
    const data::Tokenizer tokenizer = tokens.tokenizer.value_or(data::Tokenizer::gpt2());
    run::check_tokens(text, tokenizer.vocab_size());
    tokenizer.decode(values_of(tokens.train.tokens));
    tokenizer.decode(values_of(tokens.val.tokens));
    if (&run::tokens_for(text, tokenizer) != &tokens) fuzz::finding("other tokens");
  });
  return 0;
}
