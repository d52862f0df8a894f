#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/internal/vocabulary.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {
namespace {

// The merges that make the tokens of a Bpe: of each token's bytes, the merges before its own leave
// its two parts.
std::vector<Merge> merges_of(std::span<const std::string> tokens) {
  const auto& byte_order = gpt2_byte_order();
  check(tokens.size() > byte_order.size() && tokens.back() == Bpe::kEndOfTextBytes,
        "{} tokens are neither characters in their order nor those of byte pairs, of which the "
        "last one is {}",
        tokens.size(), Bpe::kEndOfTextBytes);
  BytePairs pairs;
  BytePairs::ByteTokens token_of_byte{};
  for (std::size_t i = 0; i < byte_order.size(); ++i) {
    check(tokens[i] == std::string(1, static_cast<char>(byte_order[i])),
          "token {} is not the byte that GPT-2 has there", i);
    token_of_byte[byte_order[i]] = static_cast<Token>(i);
  }
  pairs.set_bytes(token_of_byte);
  std::vector<Merge> merges;
  for (std::size_t i = byte_order.size(); i + 1 < tokens.size(); ++i) {
    std::vector<Token> parts;
    pairs.encode(tokens[i], parts);
    check(parts.size() == 2, "token {} is not made of two earlier ones by byte pairs", i);
    merges.emplace_back(parts[0], parts[1]);
    pairs.add(merges.back(), static_cast<Token>(i));
  }
  return merges;
}

}  // namespace

Tokenizer Tokenizer::of_tokens(std::span<const std::string> tokens) {
  check(!tokens.empty(), "there are no tokens");
  if (const auto characters = characters_of(tokens)) {
    return {"char", std::make_shared<const CharVocabulary>(*characters)};
  }
  auto bpe = std::make_shared<const Bpe>(merges_of(tokens));
  if (bpe->merges() == Bpe::gpt2()->merges()) return gpt2();
  return {"bpe", std::move(bpe)};
}

}  // namespace tapegrad::data
