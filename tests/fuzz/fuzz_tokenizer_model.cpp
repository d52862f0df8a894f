// tokenizer.model of SentencePiece. What is accepted must be the same tokenizer as a
// tokenizer.json, where that can say its scores.

#include <optional>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("tokenizer.model", fuzz::text_of(data, size));
  std::optional<data::Tokenizer> read;
  fuzz::accepts("tokenizer.model", [&] { read = data::Tokenizer::from_hf(path); });
  if (!read) return 0;
  std::string all;
  for (data::Token token = 0; token < read->vocab_size(); ++token) all += read->token_bytes(token);
  const auto tokens = read->encode(all);
  std::string json;
  if (!fuzz::accepts("equal scores", [&] { json = read->hf_json(); })) return 0;
  const auto again = data::Tokenizer::of_hf(json);
  if (again.vocab_size() != read->vocab_size() || again.encode(all) != tokens) {
    fuzz::finding("the tokenizer.json gives other ids");
  }
  return 0;
}
